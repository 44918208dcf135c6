//! Qwen XML: `<function=name>` with `<parameter=key>` elements, values typed by the schema.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::tags::TagCalls;
use sluicegate_sdk::think::Think;

static FUNCTION: TagCalls = TagCalls::FUNCTION;

/// Qwen3-Coder and all that write its wire; reasoning where the model thinks (Qwen3.5).
pub(crate) const QWEN3_CODER: Format = Format {
    name: "qwen3_coder",
    description: "Qwen XML calls in <tool_call>, <think> reasoning",
    catalogue: &["X1", "R1"],
    aliases: &[
        ("sglang", "qwen3_coder"),
        ("sglang", "nanbeige"),
        ("sglang", "step3p5"),
        ("vllm", "qwen3_coder"),
        ("vllm", "qwen3_xml"),
        ("vllm", "step3p5"),
        ("vllm", "step5"),
        ("dynamo", "qwen3_coder"),
        ("dynamo", "nemotron_nano"),
        ("smg", "qwen_xml"),
        ("smg", "qwen_coder"),
        ("sglang-reasoning", "nanbeige"),
    ],
    models: &["Qwen3-Coder", "Qwen3.5", "Nanbeige", "Step-3.5", "Step-5"],
    hints: &[
        (Hint::Template("<parameter="), 10),
        (Hint::Template("<function="), 4),
        (Hint::Model("*qwen3-coder*"), 8),
        (Hint::Model("*qwen3.5*"), 8),
    ],
    think: Some(Think::TAGS),
    calls: Calls::Tags(&FUNCTION),
    layout: Layout::LOOSE,
    end_tokens: &["<|im_end|>", "<|endoftext|>"],
    ..Format::BASE
};
