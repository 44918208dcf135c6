//! Formats whose calls are elements with one element for each parameter.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::tags::{CallForm, ParamForm, Slot, TagCalls, TagWire, Typing, ValueTrim};
use sluicegate_sdk::think::{Begins, Think};

const BASE: Format = Format { layout: Layout::LOOSE, ..Format::BASE };

/// All of this file.
pub(crate) const ALL: &[Format] = &[MIMO, SEED_OSS, GIGACHAT35, DOTS, STEP3, STEP3P5, MINICPM5, MINICPMV];

static FUNCTION: TagCalls = TagCalls::FUNCTION;
static VERBATIM: TagCalls = TagCalls { trim: ValueTrim::Nothing, ..TagCalls::FUNCTION };
static SEED: TagCalls = TagCalls { blocks: &["seed:tool_call"], ..TagCalls::FUNCTION };

const MIMO: Format = Format {
    name: "mimo",
    description: "Qwen XML calls with verbatim values, opt-in <think> reasoning",
    catalogue: &["X2", "R3"],
    aliases: &[("sglang", "mimo"), ("vllm", "mimo"), ("sglang-reasoning", "mimo"), ("vllm-reasoning", "mimo")],
    models: &["MiMo"],
    hints: &[(Hint::Architecture("MiMoV2FlashForCausalLM"), 16), (Hint::Model("*mimo*"), 8)],
    think: Some(Think::TAGS),
    calls: Calls::Tags(&VERBATIM),
    end_tokens: &["<|im_end|>"],
    ..BASE
};

const SEED_OSS: Format = Format {
    name: "seed_oss",
    description: "Qwen XML calls in <seed:tool_call>, <seed:think> reasoning",
    catalogue: &["X3", "R16"],
    aliases: &[("vllm", "seed_oss"), ("vllm-reasoning", "seed_oss")],
    models: &["Seed-OSS"],
    hints: &[(Hint::Template("<seed:tool_call>"), 18), (Hint::Architecture("SeedOssForCausalLM"), 8)],
    think: Some(Think { open: &["<seed:think>"], close: &["</seed:think>"], begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Tags(&SEED),
    end_tokens: &["<seed:eos>"],
    ..BASE
};

static GCML: TagCalls = TagCalls {
    prefixes: &["｜GCML｜"],
    blocks: &["tool_calls", "function_calls"],
    bare: true,
    call: CallForm::Element { tag: "invoke", name: Slot::Attribute("name") },
    param: ParamForm::Element { tag: "parameter", key: Slot::Attribute("name") },
    typing: Typing::Attribute("string"),
    json_body: true,
    ..TagCalls::BASE
};

const GIGACHAT35: Format = Format {
    name: "gigachat35",
    description: "GCML calls, <think> reasoning that is always on",
    catalogue: &["X21", "R2"],
    aliases: &[("sglang", "gigachat35"), ("sglang-reasoning", "gigachat35")],
    models: &["GigaChat 3.5"],
    hints: &[(Hint::Template("<｜GCML｜tool_calls>"), 10), (Hint::Model("*gigachat3.5*"), 8)],
    special_tokens: &["｜GCML｜"],
    think: Some(Think { begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Tags(&GCML),
    layout: Layout::NEWLINES,
    end_tokens: &["<|message_sep|>", "</s>"],
    ..BASE
};

static DOTS_CALLS: TagCalls = TagCalls {
    blocks: &["dots_function_call"],
    call: CallForm::Element { tag: "invoke", name: Slot::Attribute("name") },
    param: ParamForm::Element { tag: "parameter", key: Slot::Attribute("name") },
    trim: ValueTrim::Whitespace,
    objects: true,
    ..TagCalls::BASE
};

const DOTS: Format = Format {
    name: "dots",
    description: "Invoke elements or JSON objects in <dots_function_call>, <think> reasoning",
    catalogue: &["X15", "R1"],
    aliases: &[("sglang", "dots"), ("vllm", "dots"), ("sglang-reasoning", "dots")],
    models: &["dots"],
    hints: &[(Hint::Template("<dots_function_call>"), 10), (Hint::Model("*dots.*"), 4)],
    think: Some(Think::TAGS),
    calls: Calls::Tags(&DOTS_CALLS),
    ..BASE
};

/// `function<｜tool_sep｜>` between the call's opener and its element carries nothing.
static STEPTML: TagCalls = TagCalls {
    prefixes: &["steptml:"],
    opens: &["<｜tool_calls_begin｜>"],
    closes: &["<｜tool_calls_end｜>"],
    wire: TagWire {
        lead: "<｜tool_call_begin｜>function<｜tool_sep｜>",
        tail: "~<｜tool_call_end｜>",
        ..TagWire::BASE
    },
    call: CallForm::Element { tag: "invoke", name: Slot::Attribute("name") },
    param: ParamForm::Element { tag: "parameter", key: Slot::Attribute("name") },
    trim: ValueTrim::Whitespace,
    ..TagCalls::BASE
};

const STEP3: Format = Format {
    name: "step3",
    description: "steptml elements between section tokens, <think> reasoning that is always on",
    catalogue: &["X16", "R2"],
    aliases: &[
        ("sglang", "step3"),
        ("vllm", "step3"),
        ("smg", "step3"),
        ("sglang-reasoning", "step3"),
        ("vllm-reasoning", "step3"),
        ("dynamo-reasoning", "step3"),
        ("smg-reasoning", "step3"),
    ],
    models: &["Step3"],
    hints: &[(Hint::Template("<steptml:invoke"), 10), (Hint::Architecture("Step3VLForConditionalGeneration"), 8)],
    special_tokens: &[
        "<｜tool_calls_begin｜>",
        "<｜tool_calls_end｜>",
        "<｜tool_call_begin｜>",
        "<｜tool_call_end｜>",
        "<｜tool_sep｜>",
    ],
    think: Some(Think { begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Tags(&STEPTML),
    ..BASE
};

const STEP3P5: Format = Format {
    name: "step3p5",
    description: "Qwen XML calls in <tool_call>, <think> reasoning that is always on",
    catalogue: &["X1", "R2"],
    aliases: &[
        ("sglang", "step3p5"),
        ("vllm", "step3p5"),
        ("vllm", "step5"),
        ("sglang-reasoning", "step3p5"),
        ("vllm-reasoning", "step3p5"),
        ("vllm-reasoning", "step5"),
    ],
    models: &["Step-3.5", "Step-3.7", "Step-5"],
    hints: &[
        (Hint::Architecture("Step3p5ForCausalLM"), 16),
        (Hint::Model("*step-3.5*"), 16),
        (Hint::Model("*step-3.7*"), 16),
        (Hint::Model("*step-5*"), 16),
    ],
    think: Some(Think { begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Tags(&FUNCTION),
    ..BASE
};

/// No block: a call counts only if its tool is declared. Values may stand in CDATA.
static PARAM: TagCalls = TagCalls {
    bare: true,
    call: CallForm::Element { tag: "function", name: Slot::Attribute("name") },
    param: ParamForm::Element { tag: "param", key: Slot::Attribute("name") },
    cdata: true,
    ..TagCalls::BASE
};

const MINICPM5: Format = Format {
    name: "minicpm5",
    description: "Function elements of declared tools, <think> reasoning",
    catalogue: &["X17", "R1"],
    aliases: &[("sglang", "minicpm5"), ("vllm", "minicpm5")],
    models: &["MiniCPM5"],
    hints: &[(Hint::Template("<param name="), 6), (Hint::Model("*minicpm5*"), 8)],
    think: Some(Think::TAGS),
    calls: Calls::Tags(&PARAM),
    end_tokens: &["<|im_end|>"],
    ..BASE
};

const MINICPMV: Format = Format {
    name: "minicpmv",
    description: "Qwen XML calls in <tool_call>, <think> reasoning, reserved tokens dropped, literal \\n made real",
    catalogue: &["X1", "R15"],
    aliases: &[("vllm-reasoning", "minicpmv")],
    models: &["MiniCPM-V"],
    hints: &[(Hint::Architecture("minicpmv"), 16), (Hint::Model("*minicpm-v*"), 16)],
    think: Some(Think::TAGS),
    calls: Calls::Tags(&FUNCTION),
    end_tokens: &["<|im_end|>"],
    dropped: &[
        "<reserved_12>",
        "<reserved_13>",
        "<reserved_14>",
        "<reserved_15>",
        "<|reserved_12|>",
        "<|reserved_13|>",
        "<|reserved_14|>",
        "<|reserved_15|>",
    ],
    literal_newlines: true,
    ..BASE
};
