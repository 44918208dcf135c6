//! Format plugin of IBM's Granite models.

use sluicegate_sdk::calls::{JsonCalls, Written};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::{Layout, Trim};
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::tags::TagCalls;
use sluicegate_sdk::think::{Begins, Think};

static ARRAY: JsonCalls =
    JsonCalls { opens: &["<|tool_call|>", "<tool_call>"], written: Written::Array, ..JsonCalls::BASE };
static REPEATED: JsonCalls = JsonCalls { opens: &["<function_call>"], ..JsonCalls::BASE };
static FUNCTION: TagCalls = TagCalls::FUNCTION;

/// Granite 3 announces its thinking in English, and only at the very start.
const PROSE: Think = Think {
    open: &["Here is my thought process:", "Here's my thought process:"],
    close: &["Here is my response:", "Here's my response:"],
    calls_end_it: false,
    ..Think::TAGS
};

const BASE: Format = Format { layout: Layout::LOOSE, end_tokens: &["<|end_of_text|>"], ..Format::BASE };

/// Granite 3.x: an array behind a marker that nothing closes.
const GRANITE: Format = Format {
    name: "granite",
    description: "JSON array behind <|tool_call|> or <tool_call>, reasoning announced in English",
    catalogue: &["J11", "R21"],
    aliases: &[("vllm", "granite"), ("vllm-reasoning", "granite"), ("dynamo-reasoning", "granite")],
    models: &["Granite 3.0", "Granite 3.1", "Granite 3.2", "Granite 3.3"],
    hints: &[
        (Hint::Architecture("GraniteForCausalLM"), 6),
        (Hint::Architecture("GraniteMoeForCausalLM"), 6),
        (Hint::Model("*granite-3*"), 6),
        (Hint::Token("<|tool_call|>"), 3),
    ],
    special_tokens: &["<|tool_call|>"],
    think: Some(PROSE),
    calls: Calls::Json(&ARRAY),
    layout: Layout { reasoning: Trim::Whitespace, after_reasoning: Trim::Whitespace, ..Layout::LOOSE },
    ..BASE
};

/// granite-20b-functioncalling: the marker before every object.
const GRANITE_20B_FC: Format = Format {
    name: "granite_20b_fc",
    description: "JSON objects, each behind <function_call>",
    catalogue: &["J12"],
    aliases: &[("vllm", "granite-20b-fc")],
    models: &["granite-20b-functioncalling"],
    hints: &[(Hint::Model("*granite-20b-functioncalling*"), 10)],
    calls: Calls::Json(&REPEATED),
    ..BASE
};

/// Granite 4.2 thinking: Qwen XML.
const GRANITE_THINKING: Format = Format {
    name: "granite_thinking",
    description: "Qwen XML calls in <tool_call>, <think> reasoning opened by the prompt",
    catalogue: &["X1", "R7"],
    aliases: &[("sglang-reasoning", "granite_thinking_parser"), ("vllm-reasoning", "granite_thinking_parser")],
    models: &["Granite 4.2 thinking"],
    hints: &[(Hint::Model("*granite-4.2*"), 16)],
    think: Some(Think { begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Tags(&FUNCTION),
    ..BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("ibm", env!("CARGO_PKG_VERSION"), "Granite", &[GRANITE, GRANITE_THINKING, GRANITE_20B_FC])
}

sluicegate_sdk::export!(crate::plugin);
