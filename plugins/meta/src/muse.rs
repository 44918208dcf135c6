//! Muse: messages to recipients; what goes to a tool holds ATEM elements.

use sluicegate_sdk::channels::{ChannelWire, Channels, Route};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::syntax::Request;
use sluicegate_sdk::tags::{CallForm, ParamForm, Slot, TagCalls};

/// `assistant to=RECIPIENT`: `self` is thinking, people get content, everything else is a tool.
fn route(header: &str, _body: usize, _request: &Request) -> Route {
    match header.split_whitespace().find_map(|word| word.strip_prefix("to=")) {
        Some("self") => Route::Reasoning,
        None | Some("user" | "commentary") => Route::Content,
        Some("developer") => Route::Ignore,
        Some(_) => Route::Calls,
    }
}

/// `get_weather.get_weather` is a namespace written twice.
fn rename(name: &str, request: &Request) -> String {
    match name.split_once('.') {
        Some((space, own)) if space == own && request.tools.get(name).is_none() => own.to_owned(),
        _ => name.to_owned(),
    }
}

static ATEM: TagCalls = TagCalls {
    prefixes: &["atem:"],
    blocks: &["function_calls"],
    call: CallForm::Element { tag: "invoke", name: Slot::Attribute("name") },
    param: ParamForm::Element { tag: "parameter", key: Slot::Attribute("name") },
    rename: Some(rename),
    ..TagCalls::BASE
};

static RECIPIENTS: Channels = Channels {
    starts: &["<|start|>"],
    bodies: &["<|message|>"],
    ends: &["<|eom|>", "<|eot|>"],
    ignored: &[],
    headers: &[" to=", "to="],
    route,
    tagged: false,
    joint: "\n",
    names_first: false,
    wire: ChannelWire {
        reasoning: [" to=self<|message|>", "<|eom|>"],
        call: [" to=", "<|message|>"],
        end: "<|eom|>",
        next: "<|start|>assistant",
        trigger: "<atem:function_calls",
        content: "",
        reserved: &["self", "user", "commentary", "developer"],
    },
};

/// Muse Spark and Glimmer.
pub(crate) const MUSE: Format = Format {
    name: "muse",
    description: "Messages to recipients: self is reasoning, tools get ATEM elements",
    catalogue: &["C2", "R28"],
    aliases: &[
        ("sglang", "muse"),
        ("vllm", "muse"),
        ("vllm", "muse_glimmer"),
        ("vllm", "musespark1x"),
        ("sglang-reasoning", "muse"),
        ("vllm-reasoning", "muse"),
        ("vllm-reasoning", "muse_glimmer"),
        ("vllm-reasoning", "musespark1x"),
    ],
    models: &["Muse Spark", "Muse Glimmer"],
    hints: &[(Hint::Architecture("MuseSparkForCausalLM"), 10), (Hint::Template("<atem:invoke"), 10)],
    special_tokens: &["<|start|>", "<|message|>", "<|eom|>", "<|eot|>"],
    calls: Calls::Tags(&ATEM),
    channels: Some(&RECIPIENTS),
    layout: Layout::VERBATIM,
    ..Format::BASE
};
