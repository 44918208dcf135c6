//! Formats whose calls are Python.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::python::{PythonCalls, Written};
use sluicegate_sdk::think::{Begins, Think};

const BASE: Format = Format { layout: Layout::LOOSE, ..Format::BASE };

/// All of this file.
pub(crate) const ALL: &[Format] = &[LFM2, OLMO3, SARASHINA];

static LFM2_CALLS: PythonCalls = PythonCalls {
    opens: &["<|tool_call_start|>"],
    closes: &["<|tool_call_end|>"],
    bare: false,
    objects: true,
    written: Written::List,
};

const LFM2: Format = Format {
    name: "lfm2",
    description: "Python calls or JSON between <|tool_call_start|> and <|tool_call_end|>",
    catalogue: &["P3"],
    aliases: &[("sglang", "lfm2"), ("vllm", "lfm2")],
    models: &["LFM2", "LFM2.5"],
    hints: &[(Hint::Architecture("Lfm2ForCausalLM"), 8), (Hint::Token("<|tool_call_start|>"), 8)],
    special_tokens: &["<|tool_call_start|>", "<|tool_call_end|>"],
    calls: Calls::Python(&LFM2_CALLS),
    end_tokens: &["<|im_end|>"],
    ..BASE
};

static OLMO3_CALLS: PythonCalls = PythonCalls {
    opens: &["<function_calls>"],
    closes: &["</function_calls>"],
    bare: false,
    objects: false,
    written: Written::Lines,
};

const OLMO3: Format = Format {
    name: "olmo3",
    description: "Python calls, one a line, in <function_calls>; <think> reasoning",
    catalogue: &["P4", "R12"],
    aliases: &[("vllm", "olmo3"), ("vllm-reasoning", "olmo3")],
    models: &["OLMo 3"],
    hints: &[(Hint::Architecture("Olmo3ForCausalLM"), 8), (Hint::Model("*olmo-3*"), 8)],
    think: Some(Think { begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Python(&OLMO3_CALLS),
    end_tokens: &["<|im_end|>", "<|endoftext|>"],
    ..BASE
};

static SARASHINA_CALLS: PythonCalls =
    PythonCalls { opens: &["<|tool_calls|>"], closes: &[], bare: false, objects: true, written: Written::Dicts };

const SARASHINA: Format = Format {
    name: "sarashina",
    description: "A Python list of dicts behind <|tool_calls|>",
    catalogue: &["P5"],
    aliases: &[("smg", "sarashina")],
    models: &["Sarashina"],
    hints: &[(Hint::Token("<|tool_calls|>"), 8), (Hint::Model("*sarashina*"), 6)],
    special_tokens: &["<|tool_calls|>"],
    calls: Calls::Python(&SARASHINA_CALLS),
    end_tokens: &["</s>"],
    ..BASE
};
