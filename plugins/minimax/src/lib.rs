//! Format plugin of the MiniMax family.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::tags::{Brackets, CallForm, ParamForm, Slot, TagCalls};
use sluicegate_sdk::think::{Begins, Think};

static INVOKE: TagCalls = TagCalls {
    blocks: &["minimax:tool_call"],
    bare: true,
    call: CallForm::Element { tag: "invoke", name: Slot::Attribute("name") },
    param: ParamForm::Element { tag: "parameter", key: Slot::Attribute("name") },
    ..TagCalls::BASE
};

/// MiniMax-M2: the prompt opens reasoning, the model never does.
const M2: Format = Format {
    name: "minimax_m2",
    description: "Invoke elements in <minimax:tool_call>, <think> reasoning opened by the prompt",
    catalogue: &["X13", "R9"],
    aliases: &[
        ("sglang", "minimax-m2"),
        ("vllm", "minimax_m2"),
        ("dynamo", "minimax_m2"),
        ("smg", "minimax_m2"),
        ("sglang-reasoning", "minimax"),
        ("vllm-reasoning", "minimax_m2"),
        ("dynamo-reasoning", "minimax_m2"),
        ("smg-reasoning", "minimax"),
    ],
    models: &["MiniMax-M2", "MiniMax-M2.1", "MiniMax-M2.5"],
    hints: &[
        (Hint::Template("<minimax:tool_call>"), 10),
        (Hint::Architecture("MiniMaxM2ForCausalLM"), 8),
        (Hint::Model("*minimax-m2*"), 6),
    ],
    think: Some(Think { begins: Begins::Inside, ..Think::TAGS }),
    calls: Calls::Tags(&INVOKE),
    layout: Layout::LOOSE,
    end_tokens: &["[e~["],
    ..Format::BASE
};

/// For clients that want the tags raw: nothing is split, the opener that the prompt holds is put back.
const M2_APPEND_THINK: Format = Format {
    name: "minimax_m2_append_think",
    description: "MiniMax-M2 with <think> left in the content",
    catalogue: &["X13", "R10"],
    aliases: &[
        ("sglang-reasoning", "minimax-append-think"),
        ("vllm-reasoning", "minimax_m2_append_think"),
        ("dynamo-reasoning", "minimax_append_think"),
    ],
    models: &["MiniMax-M2 clients that want raw tags"],
    hints: &[],
    think: None,
    insert: "<think>",
    no_grammar: "reasoning stays in the content, so nothing tells where calls may begin",
    layout: Layout::VERBATIM,
    ..M2
};

/// Every tag carries the namespace, parameters nest.
static NAMESPACED: TagCalls = TagCalls {
    brackets: Brackets { open: "]<]minimax[>[<", close: "]<]minimax[>[</", end: ">" },
    blocks: &["tool_call"],
    call: CallForm::Element { tag: "invoke", name: Slot::Attribute("name") },
    param: ParamForm::Tree,
    ..TagCalls::BASE
};

/// MiniMax-M3.
const M3: Format = Format {
    name: "minimax_m3",
    description: "Namespaced invoke elements with nested parameters, <mm:think> reasoning",
    catalogue: &["X14", "R19"],
    aliases: &[
        ("sglang", "minimax-m3"),
        ("vllm", "minimax_m3"),
        ("dynamo", "minimax_m3"),
        ("dynamo", "minimax-m3"),
        ("dynamo", "minimax_m3_nom"),
        ("dynamo", "minimax-m3-nom"),
        ("sglang-reasoning", "minimax-m3"),
        ("vllm-reasoning", "minimax_m3"),
        ("dynamo-reasoning", "minimax_m3"),
        ("dynamo-reasoning", "minimax-m3"),
    ],
    models: &["MiniMax-M3"],
    hints: &[
        (Hint::Template("]<]minimax[>["), 10),
        (Hint::Template("<mm:think>"), 6),
        (Hint::Architecture("MiniMaxM3ForCausalLM"), 8),
        (Hint::Model("*minimax-m3*"), 6),
    ],
    special_tokens: &["]<]minimax[>["],
    think: Some(Think { open: &["<mm:think>"], close: &["</mm:think>"], drop_stray_close: true, ..Think::TAGS }),
    calls: Calls::Tags(&NAMESPACED),
    layout: Layout::LOOSE,
    ..Format::BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("minimax", env!("CARGO_PKG_VERSION"), "MiniMax-M2 and M3", &[M2, M3, M2_APPEND_THINK])
}

sluicegate_sdk::export!(crate::plugin);
