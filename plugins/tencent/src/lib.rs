//! Format plugin of Tencent's Hunyuan models.

use sluicegate_sdk::calls::{JsonCalls, Written};
use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::tags::{CallForm, ParamForm, TagCalls, TagWire};
use sluicegate_sdk::think::Think;

static ARRAY: JsonCalls =
    JsonCalls { opens: &["<tool_calls>"], closes: &["</tool_calls>"], written: Written::Array, ..JsonCalls::BASE };

/// Tags of a checkpoint may all carry a suffix; `<tool_sep>` is V3's, V4 leaves it out.
static PAIRS: TagCalls = TagCalls {
    suffix: true,
    outer: &["tool_calls"],
    blocks: &["tool_call"],
    call: CallForm::Leading { ends: &["\n"] },
    param: ParamForm::Pair { key: "arg_key", kind: None, value: "arg_value" },
    ignored: &["tool_sep"],
    wire: TagWire { name_ends: &["<tool_sep>~", "~"], ..TagWire::BASE },
    ..TagCalls::BASE
};

/// Hunyuan-A13B: an array, but not inside reasoning; the answer stands in a frame.
const HUNYUAN_A13B: Format = Format {
    name: "hunyuan_a13b",
    description: "JSON array in <tool_calls>, <think> reasoning, <answer> frame",
    catalogue: &["J10", "R14"],
    aliases: &[("vllm", "hunyuan_a13b"), ("vllm-reasoning", "hunyuan_a13b")],
    models: &["Hunyuan-A13B"],
    hints: &[(Hint::Architecture("HunYuanMoEV1ForCausalLM"), 8), (Hint::Model("*hunyuan-a13b*"), 8)],
    think: Some(Think { calls_end_it: false, ..Think::TAGS }),
    calls: Calls::Json(&ARRAY),
    layout: Layout::LOOSE,
    dropped: &["<answer>", "</answer>"],
    ..Format::BASE
};

/// Hunyuan V3 and V4: key and value pairs in two frames.
const HUNYUAN: Format = Format {
    name: "hunyuan",
    description: "Key and value pairs in <tool_calls> and <tool_call>, suffixes allowed, <think> reasoning",
    catalogue: &["X10", "X11", "R11"],
    aliases: &[
        ("sglang", "hunyuan"),
        ("vllm", "hy_v3"),
        ("vllm", "hy_v4"),
        ("sglang-reasoning", "hunyuan"),
        ("vllm-reasoning", "hy_v3"),
        ("vllm-reasoning", "hy_v4"),
    ],
    models: &["Hy3", "HYV4"],
    hints: &[
        (Hint::Template("<tool_sep>"), 10),
        (Hint::Architecture("HYV3ForCausalLM"), 14),
        (Hint::Architecture("HYV4ForCausalLM"), 14),
        (Hint::Model("*hunyuan-v*"), 6),
        (Hint::Model("*hy3*"), 6),
    ],
    special_tokens: &["<tool_calls>", "<tool_call>", "<tool_sep>", "<arg_key>", "<arg_value>"],
    think: Some(Think { suffix: true, ..Think::TAGS }),
    calls: Calls::Tags(&PAIRS),
    layout: Layout::LOOSE,
    ..Format::BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("tencent", env!("CARGO_PKG_VERSION"), "Hunyuan", &[HUNYUAN, HUNYUAN_A13B])
}

sluicegate_sdk::export!(crate::plugin);
