//! Format plugin of Cohere's Command models.

use sluicegate_sdk::calls::{JsonCalls, Written};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::think::Think;

/// The model numbers its calls itself; the renderer wants these ids back.
static ACTION: JsonCalls = JsonCalls {
    opens: &["<|START_ACTION|>"],
    closes: &["<|END_ACTION|>"],
    name_keys: &["tool_name", "name"],
    args_keys: &["parameters", "arguments"],
    id_key: Some("tool_call_id"),
    written: Written::Array,
    ..JsonCalls::BASE
};

/// Command R to Command A+.
const COHERE_COMMAND4: Format = Format {
    name: "cohere_command4",
    description: "JSON array in <|START_ACTION|>, <|START_THINKING|> reasoning, text in frames",
    catalogue: &["J15", "R20"],
    aliases: &[
        ("sglang", "cohere_command4"),
        ("vllm", "cohere_command3"),
        ("vllm", "cohere_command4"),
        ("smg", "cohere"),
        ("sglang-reasoning", "cohere_command4"),
        ("vllm-reasoning", "cohere_command3"),
        ("vllm-reasoning", "cohere_command4"),
        ("smg-reasoning", "cohere_cmd"),
    ],
    models: &["Command R", "Command R+", "Command A", "Command A+"],
    hints: &[
        (Hint::Token("<|START_ACTION|>"), 10),
        (Hint::Architecture("Cohere2ForCausalLM"), 8),
        (Hint::Architecture("CohereForCausalLM"), 6),
        (Hint::Model("*command-*"), 4),
    ],
    special_tokens: &[
        "<|START_ACTION|>",
        "<|END_ACTION|>",
        "<|START_THINKING|>",
        "<|END_THINKING|>",
        "<|START_RESPONSE|>",
        "<|END_RESPONSE|>",
        "<|START_TEXT|>",
        "<|END_TEXT|>",
    ],
    think: Some(Think {
        open: &["<|START_THINKING|>"],
        close: &["<|END_THINKING|>", "<|START_TEXT|>", "<|START_RESPONSE|>"],
        ..Think::TAGS
    }),
    calls: Calls::Json(&ACTION),
    layout: Layout::LOOSE,
    end_tokens: &["<|END_OF_TURN_TOKEN|>"],
    dropped: &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
    ..Format::BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("cohere", env!("CARGO_PKG_VERSION"), "Command", &[COHERE_COMMAND4])
}

sluicegate_sdk::export!(crate::plugin);
