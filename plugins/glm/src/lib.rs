//! Format plugin of the GLM family: the name first, then key and value pairs.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::tags::{CallForm, ParamForm, TagCalls, TagWire};
use sluicegate_sdk::think::Think;

/// Newline or not, real or written out: the name ends at the first of them or at the first tag.
const PAIRS: TagCalls = TagCalls {
    blocks: &["tool_call"],
    call: CallForm::Leading { ends: &["\n", "\\n"] },
    param: ParamForm::Pair { key: "arg_key", kind: None, value: "arg_value" },
    ..TagCalls::BASE
};

static COMPACT: TagCalls = PAIRS;

static LINES: TagCalls = TagCalls { wire: TagWire { name_ends: &["\n"], ..TagWire::BASE }, ..PAIRS };

const BASE: Format = Format {
    think: Some(Think::TAGS),
    calls: Calls::Tags(&COMPACT),
    layout: Layout::LOOSE,
    end_tokens: &["<|endoftext|>", "<|user|>", "<|observation|>"],
    ..Format::BASE
};

/// GLM-4.5 and 4.6.
const GLM45: Format = Format {
    name: "glm45",
    description: "Key and value pairs in <tool_call>, name on the first line, <think> reasoning",
    catalogue: &["X4", "R1"],
    aliases: &[
        ("sglang", "glm"),
        ("sglang", "glm45"),
        ("vllm", "glm45"),
        ("smg", "glm45_moe"),
        ("sglang-reasoning", "glm45"),
        ("vllm-reasoning", "glm45"),
        ("dynamo-reasoning", "glm45"),
        ("smg-reasoning", "glm45"),
    ],
    models: &["GLM-4.5", "GLM-4.5-Air", "GLM-4.6"],
    hints: &[
        (Hint::Template("<arg_key>"), 8),
        (Hint::Template("\\n<tool_call>' + tc.name"), 4),
        (Hint::Model("*glm-4.5*"), 6),
        (Hint::Model("*glm-4.6*"), 6),
    ],
    calls: Calls::Tags(&LINES),
    ..BASE
};

/// GLM-4.7 and 5.
const GLM47: Format = Format {
    name: "glm47",
    description: "Key and value pairs in <tool_call>, compact, <think> reasoning",
    catalogue: &["X5", "R1"],
    aliases: &[
        ("sglang", "glm47"),
        ("vllm", "glm47"),
        ("dynamo", "glm47"),
        ("smg", "glm47_moe"),
        ("vllm-reasoning", "glm47"),
    ],
    models: &["GLM-4.7", "GLM-5"],
    hints: &[
        (Hint::Template("<arg_key>"), 8),
        (Hint::Template("'<tool_call>' + tc.name"), 4),
        (Hint::Model("*glm-4.7*"), 6),
        (Hint::Model("*glm-5*"), 6),
    ],
    ..BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("glm", env!("CARGO_PKG_VERSION"), "GLM-4.5 to GLM-5", &[GLM45, GLM47])
}

sluicegate_sdk::export!(crate::plugin);
