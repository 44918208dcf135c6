//! Llama's JSON calls: behind `<|python_tag|>`, or as the whole answer.

use sluicegate_sdk::calls::{JsonCalls, Written};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};

static CALLS: JsonCalls = JsonCalls {
    opens: &["<|python_tag|>"],
    starts: &["{"],
    args_keys: &["parameters", "arguments"],
    written: Written::Row(";"),
    ..JsonCalls::BASE
};

/// Llama 3.x and the JSON template of Llama 4; calls are separated by semicolons.
pub(crate) const LLAMA3_JSON: Format = Format {
    name: "llama3_json",
    description: "JSON calls behind <|python_tag|> or as the whole answer",
    catalogue: &["J4"],
    aliases: &[
        ("sglang", "llama3"),
        ("vllm", "llama3_json"),
        ("vllm", "llama4_json"),
        ("dynamo", "llama3_json"),
        ("smg", "llama"),
    ],
    models: &["Llama 3.1", "Llama 3.2", "Llama 3.3", "Llama 4"],
    hints: &[
        (Hint::Token("<|python_tag|>"), 4),
        (Hint::Template("\"parameters\": dictionary of argument name and its value"), 4),
        (Hint::Model("*llama-3.*"), 4),
    ],
    special_tokens: &["<|python_tag|>", "<|eom_id|>", "<|eot_id|>"],
    calls: Calls::Json(&CALLS),
    layout: Layout::LOOSE,
    end_tokens: &["<|eom_id|>", "<|eot_id|>"],
    ..Format::BASE
};
