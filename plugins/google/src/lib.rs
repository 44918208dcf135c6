//! Format plugin of Google's Gemma models.

use sluicegate_sdk::brace::BraceCalls;
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::think::Think;

static GEMMA4_CALLS: BraceCalls =
    BraceCalls { opens: &["<|tool_call>"], closes: &["<tool_call|>"], prefix: "call:", quote: "<|\"|>", decode: false };

const GEMMA4: Format = Format {
    name: "gemma4",
    description: "Brace literals between <|tool_call> and <tool_call|>, <|channel>thought reasoning",
    catalogue: &["G1", "R24"],
    aliases: &[
        ("sglang", "gemma4"),
        ("vllm", "gemma4"),
        ("dynamo", "gemma4"),
        ("dynamo", "gemma-4"),
        ("sglang-reasoning", "gemma4"),
        ("vllm-reasoning", "gemma4"),
        ("dynamo-reasoning", "gemma4"),
        ("dynamo-reasoning", "gemma-4"),
    ],
    models: &["Gemma 4"],
    hints: &[(Hint::Template("<|channel>"), 10), (Hint::Model("*gemma-4*"), 8)],
    special_tokens: &["<|tool_call>", "<tool_call|>", "<|\"|>", "<|channel>", "<channel|>"],
    think: Some(Think {
        open: &["<|channel>"],
        label: "thought\n",
        close: &["<channel|>"],
        drop_stray_close: true,
        ..Think::TAGS
    }),
    calls: Calls::Brace(&GEMMA4_CALLS),
    layout: Layout::LOOSE,
    end_tokens: &["<turn|>"],
    ..Format::BASE
};

static FUNCTIONGEMMA_CALLS: BraceCalls = BraceCalls {
    opens: &["<start_function_call>"],
    closes: &["<end_function_call>"],
    prefix: "call:",
    quote: "<escape>",
    decode: true,
};

const FUNCTIONGEMMA: Format = Format {
    name: "functiongemma",
    description: "Brace literals between <start_function_call> and <end_function_call>",
    catalogue: &["G2"],
    aliases: &[("vllm", "functiongemma")],
    models: &["FunctionGemma 270M"],
    hints: &[(Hint::Token("<start_function_call>"), 10), (Hint::Model("*functiongemma*"), 8)],
    special_tokens: &["<start_function_call>", "<end_function_call>", "<escape>"],
    calls: Calls::Brace(&FUNCTIONGEMMA_CALLS),
    layout: Layout::LOOSE,
    end_tokens: &["<end_of_turn>", "<start_function_response>"],
    ..Format::BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("google", env!("CARGO_PKG_VERSION"), "Gemma 4, FunctionGemma", &[GEMMA4, FUNCTIONGEMMA])
}

sluicegate_sdk::export!(crate::plugin);
