//! DSML: calls as elements whose tags carry the token `｜DSML｜`, values typed by an attribute.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::tags::{CallForm, ParamForm, Slot, TagCalls, TagWire, Typing};
use sluicegate_sdk::think::Think;

/// `</think>` ends reasoning, a second one means nothing; an opener counts only when thinking is on.
const THINK: Think = Think { open_when_off: false, drop_stray_close: true, ..Think::TAGS };

/// What the three spellings share. The readers are lenient: block names of the other versions, a space behind the
/// token, ASCII bars, a call without a block and a JSON body are all seen in the wild and have one reading.
const DSML: TagCalls = TagCalls {
    prefixes: &["｜DSML｜", "|DSML|"],
    bare: true,
    call: CallForm::Element { tag: "invoke", name: Slot::Attribute("name") },
    param: ParamForm::Element { tag: "parameter", key: Slot::Attribute("name") },
    typing: Typing::Attribute("string"),
    json_body: true,
    unwrap: &["arguments", "input"],
    ..TagCalls::BASE
};

static V32_CALLS: TagCalls =
    TagCalls { blocks: &["function_calls", "tool_calls", "toolcalls", "calls", "tool"], ..DSML };
static V4_CALLS: TagCalls =
    TagCalls { blocks: &["tool_calls", "toolcalls", "function_calls", "calls", "tool"], ..DSML };
static V41_CALLS: TagCalls = TagCalls {
    blocks: &["calls", "tool_calls", "toolcalls", "function_calls", "tool"],
    wire: TagWire { prefix: Some("｜DSML｜ "), ..TagWire::BASE },
    ..DSML
};

const END_OF_SENTENCE: &str = "<｜end▁of▁sentence｜>";

const BASE: Format = Format {
    special_tokens: &["｜DSML｜", "<think>", "</think>", END_OF_SENTENCE],
    think: Some(THINK),
    layout: Layout::NEWLINES,
    end_tokens: &[END_OF_SENTENCE],
    ..Format::BASE
};

/// DeepSeek-V3.2: block `function_calls`.
pub(crate) const V32: Format = Format {
    name: "deepseek_v32",
    description: "DSML calls in a function_calls block, <think> reasoning when it is on",
    catalogue: &["X18", "R3"],
    aliases: &[("sglang", "deepseekv32"), ("vllm", "deepseek_v32"), ("dynamo", "deepseek_v3_2"), ("smg", "deepseek32")],
    models: &["DeepSeek-V3.2"],
    hints: &[
        (Hint::Template("<｜DSML｜function_calls>"), 10),
        (Hint::Model("*deepseek-v3.2*"), 6),
        (Hint::Architecture("DeepseekV32ForCausalLM"), 6),
        (Hint::Token("｜DSML｜"), 2),
    ],
    calls: Calls::Tags(&V32_CALLS),
    ..BASE
};

/// DeepSeek-V4: block `tool_calls`.
pub(crate) const V4: Format = Format {
    name: "deepseek_v4",
    description: "DSML calls in a tool_calls block, <think> reasoning when it is on",
    catalogue: &["X19", "R4"],
    aliases: &[
        ("sglang", "deepseekv4"),
        ("sglang-reasoning", "deepseek-v4"),
        ("vllm", "deepseek_v4"),
        ("vllm-reasoning", "deepseek_v4"),
        ("dynamo", "deepseek_v4"),
        ("dynamo", "deepseek-v4"),
        ("dynamo", "deepseekv4"),
        ("dynamo-reasoning", "deepseek_v4"),
        ("dynamo-reasoning", "deepseek-v4"),
        ("dynamo-reasoning", "deepseekv4"),
        ("smg", "deepseek_v4"),
    ],
    models: &["DeepSeek-V4-Pro", "DeepSeek-V4-Flash"],
    hints: &[
        (Hint::Template("<｜DSML｜tool_calls>"), 10),
        (Hint::Architecture("DeepseekV4ForCausalLM"), 8),
        (Hint::Model("*deepseek-v4*"), 6),
        (Hint::Token("｜DSML｜"), 2),
    ],
    renderer: Some("deepseek-v4"),
    calls: Calls::Tags(&V4_CALLS),
    ..BASE
};

/// DeepSeek-V4.1: a space behind the DSML token in every tag.
pub(crate) const V41: Format = Format {
    name: "deepseek_v41",
    description: "DSML calls with spaced tags in a calls block, <think> reasoning when it is on",
    catalogue: &["X20", "R4"],
    aliases: &[
        ("sglang", "deepseekv41"),
        ("sglang-reasoning", "deepseek-v41"),
        ("vllm", "deepseek_v41"),
        ("vllm-reasoning", "deepseek_v41"),
    ],
    models: &["DeepSeek-V4.1"],
    hints: &[
        (Hint::Template("<｜DSML｜ calls>"), 10),
        (Hint::Architecture("DeepseekV41ForCausalLM"), 8),
        (Hint::Model("*deepseek-v4.1*"), 8),
        (Hint::Token("｜DSML｜"), 2),
    ],
    renderer: Some("deepseek-v41"),
    calls: Calls::Tags(&V41_CALLS),
    ..BASE
};
