//! Format plugin of the MiniMax family.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::tags::{CallForm, ParamForm, Slot, TagCalls};
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

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("minimax", env!("CARGO_PKG_VERSION"), "MiniMax-M2", &[M2])
}

sluicegate_sdk::export!(crate::plugin);
