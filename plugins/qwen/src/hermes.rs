//! JSON objects between `<tool_call>` and `</tool_call>`.

use sluicegate_sdk::calls::JsonCalls;
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::think::Think;

static TOOL_CALL: JsonCalls = JsonCalls { opens: &["<tool_call>"], closes: &["</tool_call>"], ..JsonCalls::BASE };

const BASE: Format = Format {
    calls: Calls::Json(&TOOL_CALL),
    layout: Layout::LOOSE,
    end_tokens: &["<|im_end|>", "<|endoftext|>"],
    ..Format::BASE
};

/// Hermes: tool calls alone.
pub(crate) const HERMES: Format = Format {
    name: "hermes",
    description: "JSON calls in <tool_call>, no reasoning",
    catalogue: &["J1"],
    aliases: &[
        ("sglang", "hermes"),
        ("sglang", "qwen"),
        ("sglang", "qwen25"),
        ("vllm", "hermes"),
        ("vllm", "granite4"),
        ("dynamo", "hermes"),
        ("dynamo", "qwen25"),
        ("smg", "qwen"),
    ],
    models: &["Qwen2.5", "Nous Hermes 2/3", "Granite 4.0"],
    hints: &[
        (Hint::Model("*qwen2.5*"), 6),
        (Hint::Model("*hermes*"), 6),
        (Hint::Architecture("GraniteMoeHybridForCausalLM"), 6),
        (Hint::Architecture("Qwen2ForCausalLM"), 4),
        (Hint::Template("<tool_call>"), 4),
    ],
    ..BASE
};

/// Qwen3: the same calls, and reasoning that is on by default.
pub(crate) const QWEN3: Format = Format {
    name: "qwen3",
    description: "JSON calls in <tool_call>, <think> reasoning",
    catalogue: &["J1", "R1", "R2", "R3"],
    aliases: &[
        ("vllm", "qwen3_json"),
        ("sglang", "trinity"),
        ("sglang-reasoning", "qwen3"),
        ("sglang-reasoning", "qwen3-thinking"),
        ("vllm-reasoning", "qwen3"),
        ("vllm-reasoning", "holo2"),
        ("dynamo-reasoning", "qwen3"),
        ("dynamo-reasoning", "basic"),
        ("smg-reasoning", "qwen3"),
        ("smg-reasoning", "qwen3_thinking"),
        ("smg-reasoning", "base"),
    ],
    models: &["Qwen3", "QwQ", "Arcee Trinity", "Holo2"],
    hints: &[
        (Hint::Architecture("Qwen3ForCausalLM"), 6),
        (Hint::Architecture("Qwen3MoeForCausalLM"), 6),
        (Hint::Architecture("Qwen3NextForCausalLM"), 6),
        (Hint::Model("*qwen3*"), 4),
        (Hint::Model("*qwq*"), 6),
        (Hint::Token("<think>"), 1),
        (Hint::Template("<think>"), 3),
        (Hint::Template("<tool_call>"), 4),
    ],
    think: Some(Think::TAGS),
    ..BASE
};
