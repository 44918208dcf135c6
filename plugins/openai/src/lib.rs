//! Format plugin of OpenAI's open models: Harmony.

use sluicegate_sdk::channels::{ChannelWire, Channels, Route};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Format, Plugin};
use sluicegate_sdk::syntax::Request;

const CHANNEL: &str = "<|channel|>";
const CONSTRAIN: &str = "<|constrain|>";

/// A header is `role (to=recipient)? (<|channel|>channel (to=recipient)?)? (<|constrain|>type)?`. The recipient decides
/// before the channel: calls come on any of them.
fn route(header: &str, _body: usize, request: &Request) -> Route {
    let header = header.split(CONSTRAIN).next().unwrap_or_default();
    let channel = header.split_once(CHANNEL).map(|(_, c)| c.split_whitespace().next().unwrap_or_default());
    let recipient = header.split(CHANNEL).flat_map(str::split_whitespace).find_map(|word| word.strip_prefix("to="));
    if let Some(recipient) = recipient {
        if let Some(name) = recipient.strip_prefix("functions.") {
            return Route::Call(name.to_owned(), None);
        }
        if request.tools.get(recipient).is_some() {
            return Route::Call(recipient.to_owned(), None);
        }
        // The vendor's built-in tools: nobody here runs them, so it is thinking aloud.
        return Route::Reasoning;
    }
    match channel {
        Some("analysis") => Route::Reasoning,
        _ => Route::Content,
    }
}

static HARMONY_CHANNELS: Channels = Channels {
    starts: &["<|start|>"],
    bodies: &["<|message|>"],
    ends: &["<|end|>", "<|call|>", "<|return|>"],
    ignored: &[],
    headers: &[CHANNEL, " to=", "to="],
    route,
    tagged: false,
    joint: "\n",
    names_first: false,
    wire: ChannelWire {
        reasoning: ["<|channel|>analysis<|message|>", "<|end|>"],
        call: ["<|channel|>commentary to=functions.", "~<|constrain|>json<|message|>"],
        end: "<|call|>",
        next: "<|start|>assistant",
        trigger: "<|channel|>commentary to=functions.",
        content: "",
        reserved: &[],
    },
};

/// gpt-oss.
const HARMONY: Format = Format {
    name: "harmony",
    description: "Harmony messages: analysis is reasoning, recipients are tool calls, the rest is content",
    catalogue: &["C1", "R25"],
    aliases: &[
        ("sglang", "gpt-oss"),
        ("vllm", "openai"),
        ("dynamo", "harmony"),
        ("sglang-reasoning", "gpt-oss"),
        ("vllm-reasoning", "openai_gptoss"),
        ("dynamo-reasoning", "gpt_oss"),
    ],
    models: &["gpt-oss-20b", "gpt-oss-120b"],
    hints: &[
        (Hint::Architecture("GptOssForCausalLM"), 10),
        (Hint::Template("<|channel|>"), 6),
        (Hint::Model("*gpt-oss*"), 6),
    ],
    special_tokens: &["<|start|>", "<|end|>", "<|message|>", CHANNEL, CONSTRAIN, "<|return|>", "<|call|>"],
    token_ids: true,
    channels: Some(&HARMONY_CHANNELS),
    layout: Layout::VERBATIM,
    ..Format::BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("openai", env!("CARGO_PKG_VERSION"), "gpt-oss", &[HARMONY])
}

sluicegate_sdk::export!(crate::plugin);
