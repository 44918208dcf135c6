//! Formats made of messages with headers.

use sluicegate_sdk::calls::JsonCalls;
use sluicegate_sdk::channels::{ChannelWire, Channels, Route};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::syntax::Request;
use sluicegate_sdk::tags::{CallForm, ParamForm, Slot, TagCalls, ValueTrim};

/// All of this file.
pub(crate) const ALL: &[Format] = &[BEAM, INKLING];

/// ` to=NAME<|channel|>analysis <|constrain|>xml` is a call, a bare channel is text.
fn beam_route(header: &str, _body: usize, _request: &Request) -> Route {
    let (before, channel) = header.split_once("<|channel|>").unwrap_or((header, ""));
    if let Some(name) = before.split_whitespace().find_map(|word| word.strip_prefix("to=")) {
        return Route::Call(name.strip_prefix("functions.").unwrap_or(name).to_owned(), None);
    }
    if channel.trim_start().starts_with("analysis") { Route::Reasoning } else { Route::Content }
}

/// The header names the function, so the body is parameters alone.
static RFL: TagCalls = TagCalls {
    prefixes: &["rfl:"],
    call: CallForm::Element { tag: "call", name: Slot::Attribute("name") },
    param: ParamForm::Element { tag: "parameter", key: Slot::Attribute("name") },
    trim: ValueTrim::OneNewline,
    ..TagCalls::BASE
};

static BEAM_CHANNELS: Channels = Channels {
    starts: &["<|start|>"],
    bodies: &["<|message|>"],
    ends: &["<|end|>", "<|call|>", "<|return|>"],
    ignored: &[],
    headers: &["<|channel|>", " to=", "to="],
    route: beam_route,
    tagged: true,
    joint: "\n",
    names_first: false,
    // Nothing before the header shows that a call begins.
    wire: ChannelWire {
        reasoning: ["<|channel|>analysis<|message|>", "<|end|>"],
        call: [" to=", "<|channel|>analysis <|constrain|>xml<|message|>"],
        end: "<|call|>",
        next: "<|start|>assistant",
        trigger: "",
        content: "<|channel|>final<|message|>",
        reserved: &[],
    },
};

const BEAM: Format = Format {
    name: "beam",
    description: "Harmony-like messages whose calls hold <rfl:parameter> elements",
    catalogue: &["C4", "R26"],
    aliases: &[("sglang", "beam"), ("vllm", "beam"), ("sglang-reasoning", "beam"), ("vllm-reasoning", "beam")],
    models: &["Beam"],
    hints: &[(Hint::Template("<rfl:parameter"), 12)],
    special_tokens: &["<|start|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"],
    token_ids: true,
    calls: Calls::Tags(&RFL),
    channels: Some(&BEAM_CHANNELS),
    layout: Layout::VERBATIM,
    ..Format::BASE
};

/// The kind of a block decides; its header only repeats the name that the JSON gives.
fn inkling_route(_header: &str, body: usize, _request: &Request) -> Route {
    [Route::Content, Route::Reasoning, Route::Calls].get(body).cloned().unwrap_or(Route::Ignore)
}

static INKLING_CALLS: JsonCalls = JsonCalls { args_keys: &["args", "arguments"], ..JsonCalls::BASE };

static INKLING_BLOCKS: Channels = Channels {
    starts: &["<|message_model|>"],
    bodies: &[
        "<|content_text|>",
        "<|content_thinking|>",
        "<|content_invoke_tool_json|>",
        "<|content_invoke_tool_text|>",
    ],
    ends: &["<|end_message|>", "<|content_model_end_sampling|>"],
    ignored: &[],
    headers: &[],
    route: inkling_route,
    tagged: false,
    joint: "\n",
    names_first: true,
    wire: ChannelWire {
        reasoning: ["<|content_thinking|>", "<|end_message|>"],
        call: ["", "<|content_invoke_tool_json|>"],
        end: "<|end_message|>",
        next: "<|message_model|>",
        trigger: "<|content_invoke_tool_json|>",
        content: "",
        reserved: &[],
    },
};

const INKLING: Format = Format {
    name: "inkling",
    description: "Typed content blocks: text, thinking, JSON tool invocations",
    catalogue: &["C5", "R27"],
    aliases: &[
        ("sglang", "inkling"),
        ("vllm", "inkling"),
        ("dynamo", "inkling"),
        ("smg", "inkling"),
        ("sglang-reasoning", "inkling"),
        ("vllm-reasoning", "inkling"),
        ("dynamo-reasoning", "inkling"),
        ("smg-reasoning", "inkling"),
    ],
    models: &["Inkling"],
    hints: &[(Hint::Token("<|content_invoke_tool_json|>"), 10)],
    special_tokens: &[
        "<|message_model|>",
        "<|content_text|>",
        "<|content_thinking|>",
        "<|end_message|>",
        "<|content_invoke_tool_json|>",
        "<|content_invoke_tool_text|>",
        "<|content_model_end_sampling|>",
    ],
    token_ids: true,
    calls: Calls::Json(&INKLING_CALLS),
    channels: Some(&INKLING_BLOCKS),
    layout: Layout::VERBATIM,
    ..Format::BASE
};
