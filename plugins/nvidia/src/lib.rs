//! Format plugin of NVIDIA's Nemotron models.

use sluicegate_sdk::calls::{JsonCalls, Written};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::tags::TagCalls;
use sluicegate_sdk::think::{Begins, Think};

static TOOLCALL: JsonCalls =
    JsonCalls { opens: &["<TOOLCALL>"], closes: &["</TOOLCALL>"], written: Written::Array, ..JsonCalls::BASE };
static FUNCTION: TagCalls = TagCalls::FUNCTION;

/// Llama-Nemotron: an array in `<TOOLCALL>`.
const NEMOTRON_DECI: Format = Format {
    name: "nemotron_deci",
    description: "JSON array in <TOOLCALL>, <think> reasoning",
    catalogue: &["J8", "R1"],
    aliases: &[("dynamo", "nemotron_deci"), ("dynamo-reasoning", "nemotron_deci")],
    models: &["Llama-Nemotron Nano", "Llama-Nemotron Super", "Llama-Nemotron Ultra"],
    hints: &[(Hint::Template("<TOOLCALL>"), 18), (Hint::Model("*llama*nemotron*"), 8)],
    think: Some(Think::TAGS),
    calls: Calls::Json(&TOOLCALL),
    layout: Layout::LOOSE,
    end_tokens: &["<|eot_id|>"],
    ..Format::BASE
};

/// Nemotron 3: Qwen XML, a call ends reasoning.
const NEMOTRON3: Format = Format {
    name: "nemotron3",
    description: "Qwen XML calls in <tool_call>, <think> reasoning opened by the prompt",
    catalogue: &["X1", "R2", "R6"],
    aliases: &[
        ("dynamo", "nemotron_nano"),
        ("sglang-reasoning", "nemotron_3"),
        ("vllm-reasoning", "nemotron_v3"),
        ("dynamo-reasoning", "nemotron3"),
        ("dynamo-reasoning", "nemotron_v3"),
        ("dynamo-reasoning", "nemotron_nano"),
        ("smg-reasoning", "nano_v3"),
    ],
    models: &["Nemotron-3 Nano", "Nemotron-3 Super"],
    hints: &[(Hint::Architecture("NemotronHForCausalLM"), 16), (Hint::Model("*nemotron-3*"), 8)],
    think: Some(Think { begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Tags(&FUNCTION),
    layout: Layout::LOOSE,
    end_tokens: &["<|im_end|>"],
    ..Format::BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("nvidia", env!("CARGO_PKG_VERSION"), "Nemotron", &[NEMOTRON3, NEMOTRON_DECI])
}

sluicegate_sdk::export!(crate::plugin);
