//! Calls written as a Python list, bare or between markers.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::python::PythonCalls;

static BARE: PythonCalls = PythonCalls::BASE;
static FRAMED: PythonCalls =
    PythonCalls { opens: &["<|python_start|>"], closes: &["<|python_end|>"], ..PythonCalls::BASE };

const BASE: Format =
    Format { layout: Layout::LOOSE, end_tokens: &["<|eom_id|>", "<|eot_id|>", "<|eot|>"], ..Format::BASE };

/// A list of calls that are declared, anywhere in the text.
pub(crate) const PYTHONIC: Format = Format {
    name: "pythonic",
    description: "A Python list of calls of declared tools",
    catalogue: &["P1"],
    aliases: &[("sglang", "pythonic"), ("vllm", "pythonic"), ("dynamo", "pythonic"), ("smg", "pythonic")],
    models: &["Llama 3.2", "ToolACE"],
    hints: &[(Hint::Model("*toolace*"), 6), (Hint::Template("[func_name1(params_name1=params_value1"), 8)],
    calls: Calls::Python(&BARE),
    ..BASE
};

/// Llama 4: the list stands between tokens that many engines drop.
pub(crate) const LLAMA4_PYTHONIC: Format = Format {
    name: "llama4_pythonic",
    description: "A Python list of calls, with or without <|python_start|>",
    catalogue: &["P2"],
    aliases: &[("sglang", "pythonic"), ("vllm", "llama4_pythonic"), ("smg", "pythonic")],
    models: &["Llama 4 Scout", "Llama 4 Maverick"],
    hints: &[
        (Hint::Architecture("Llama4ForConditionalGeneration"), 6),
        (Hint::Model("*llama-4*"), 6),
        (Hint::Token("<|python_start|>"), 4),
    ],
    special_tokens: &["<|python_start|>", "<|python_end|>", "<|eom|>", "<|eot|>"],
    calls: Calls::Python(&FRAMED),
    ..BASE
};
