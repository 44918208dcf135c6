//! Formats whose calls are a name and then key and value pairs.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format};
use sluicegate_sdk::tags::{CallForm, ParamForm, TagCalls, TagWire, ValueTrim};
use sluicegate_sdk::think::{Begins, Think};

const BASE: Format = Format { layout: Layout::LOOSE, think: Some(Think::TAGS), ..Format::BASE };

/// All of this file.
pub(crate) const ALL: &[Format] = &[LING3, IQUEST_Q1, POOLSIDE_V1, SPARK25, K2_HORIZON];

static PAIRS: TagCalls = PAIRS_BASE;
static ONE_NEWLINE: TagCalls =
    TagCalls { trim: ValueTrim::OneNewline, wire: TagWire { name_ends: &["\n"], ..TagWire::BASE }, ..PAIRS_BASE };
static IQUEST: TagCalls = TagCalls { blocks: &["iquest_tool_call"], ..TagCalls::BASE };

const PAIRS_BASE: TagCalls = TagCalls { blocks: &["tool_call"], ..TagCalls::BASE };

const LING3: Format = Format {
    name: "ling3",
    description: "Key and value pairs in <tool_call>, with or without newlines, <think> reasoning",
    catalogue: &["X6", "R8"],
    aliases: &[("sglang", "ling3"), ("vllm", "ling3"), ("sglang-reasoning", "ling3"), ("vllm-reasoning", "ling3")],
    models: &["Ling 3"],
    hints: &[(Hint::Architecture("BailingMoeV3ForCausalLM"), 14), (Hint::Model("*ling-3*"), 6)],
    think: Some(Think { begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Tags(&PAIRS),
    ..BASE
};

const IQUEST_Q1: Format = Format {
    name: "iquest_q1",
    description: "Key and value pairs in <iquest_tool_call>, <think> reasoning",
    catalogue: &["X7", "R1"],
    aliases: &[("sglang", "iquest_q1"), ("sglang-reasoning", "iquest_q1")],
    models: &["IQuest Q1"],
    hints: &[(Hint::Token("<|iquest_assistant|>"), 14)],
    calls: Calls::Tags(&IQUEST),
    ..BASE
};

const POOLSIDE_V1: Format = Format {
    name: "poolside_v1",
    description: "Key and value pairs in <tool_call>, one newline around values, opt-in <think> reasoning",
    catalogue: &["X8", "R3"],
    aliases: &[
        ("sglang", "poolside_v1"),
        ("vllm", "poolside_v1"),
        ("sglang-reasoning", "poolside_v1"),
        ("vllm-reasoning", "poolside_v1"),
    ],
    models: &["Laguna XS.2", "Laguna S"],
    hints: &[(Hint::Architecture("LagunaForCausalLM"), 14), (Hint::Model("*laguna*"), 14)],
    calls: Calls::Tags(&ONE_NEWLINE),
    end_tokens: &["</assistant>"],
    ..BASE
};

const SPARK25: Format = Format {
    name: "spark25",
    description: "Key and value pairs in <tool_call>",
    catalogue: &["X9"],
    aliases: &[("sglang", "spark25")],
    models: &["Spark 2.5"],
    hints: &[(Hint::Model("*spark*2.5*"), 14)],
    think: None,
    calls: Calls::Tags(&ONE_NEWLINE),
    ..BASE
};

static IFM: TagCalls = TagCalls {
    prefixes: &["ifm|"],
    outer: &["tool_calls"],
    blocks: &["tool_call"],
    call: CallForm::Leading { ends: &["\n"] },
    param: ParamForm::Pair { key: "arg_key", kind: Some("arg_type"), value: "arg_value" },
    objects: true,
    ..TagCalls::BASE
};

const K2_HORIZON: Format = Format {
    name: "k2_horizon",
    description: "Key and value pairs (types allowed) or JSON in <ifm|tool_call>, <ifm|think> reasoning of three depths",
    catalogue: &["X12", "R22"],
    aliases: &[
        ("sglang", "k2_horizon"),
        ("vllm", "k2_horizon"),
        ("sglang-reasoning", "k2_horizon"),
        ("vllm-reasoning", "k2_horizon"),
    ],
    models: &["K2 Horizon"],
    hints: &[(Hint::Template("<ifm|tool_call>"), 10)],
    special_tokens: &["<ifm|tool_calls>", "<ifm|tool_call>", "<ifm|arg_key>", "<ifm|arg_type>", "<ifm|arg_value>"],
    think: Some(Think {
        open: &["<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"],
        close: &["</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"],
        begins: Begins::Inside,
        ..Think::TAGS
    }),
    calls: Calls::Tags(&IFM),
    ..BASE
};
