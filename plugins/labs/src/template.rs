//! The format that a tokenizer declares itself.

use sluicegate_sdk::format::Format;
use sluicegate_sdk::template::{OPTIONS_SCHEMA, TemplateMachine};

/// All of this file.
pub(crate) const ALL: &[Format] = &[RESPONSE_TEMPLATE];

const RESPONSE_TEMPLATE: Format = Format {
    name: "response_template",
    description: "What response_template in tokenizer_config.json declares, or the option of that name",
    catalogue: &["D1", "R31"],
    aliases: &[
        ("sglang", "response_template"),
        ("vllm", "hf"),
        ("sglang-reasoning", "response_template"),
        ("vllm-reasoning", "hf"),
    ],
    models: &["any model whose tokenizer ships a response_template"],
    no_grammar: "what the model writes is declared as patterns, of which no grammar can be made",
    options: OPTIONS_SCHEMA,
    machine: Some(TemplateMachine::boxed),
    ..Format::BASE
};
