//! Format plugin `my_format`: messages with headers.

use sluicegate_sdk::channels::{ChannelWire, Channels, Route};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Format, Plugin};
use sluicegate_sdk::syntax::Request;

/// `analysis` is reasoning, ` to=functions.NAME` is a call whose body is its JSON arguments, the rest is content.
fn route(header: &str, _body: usize, _request: &Request) -> Route {
    let word = |prefix: &str| header.split_whitespace().find_map(|word| word.strip_prefix(prefix));
    match word("to=functions.") {
        Some(name) => Route::Call(name.to_owned(), None),
        None if header.contains("analysis") => Route::Reasoning,
        None => Route::Content,
    }
}

static MESSAGES: Channels = Channels {
    starts: &["<|channel|>"],
    bodies: &["<|message|>"],
    ends: &["<|end|>"],
    ignored: &[],
    headers: &[],
    route,
    tagged: false,
    joint: "\n",
    names_first: false,
    // How a grammar writes a message when the request demands a call.
    wire: ChannelWire {
        reasoning: ["<|channel|>analysis<|message|>", "<|end|>"],
        call: ["<|channel|>final to=functions.", "<|message|>"],
        end: "<|end|>",
        next: "",
        trigger: "<|channel|>final to=functions.",
        content: "",
        reserved: &[],
    },
};

/// The format, as the gateway's configuration names it.
const MY_FORMAT: Format = Format {
    name: "my_format",
    description: "Messages whose headers name a channel or a tool",
    models: &["the models that speak it"],
    // How `format = "auto"` recognises them; the most weight wins.
    hints: &[(Hint::Model("*my-model*"), 8), (Hint::Template("<|channel|>"), 10)],
    // Added tokens of the vocabulary that must reach the parser as text.
    special_tokens: &[],
    channels: Some(&MESSAGES),
    layout: Layout::VERBATIM,
    // Engines may leave these at the end of the text.
    end_tokens: &["<|im_end|>"],
    ..Format::BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("my-format", env!("CARGO_PKG_VERSION"), "What my_format's models speak", &[MY_FORMAT])
}

sluicegate_sdk::export!(crate::plugin);
