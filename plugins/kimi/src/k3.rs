//! Kimi K3: everything in `<|open|>name attributes<|sep|>` and `<|close|>name<|sep|>`.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Wire};
use sluicegate_sdk::syntax::Request;
use sluicegate_sdk::tags::{Brackets, CallForm, ParamForm, Slot, TagCalls, TagWire, Typing};
use sluicegate_sdk::think::Think;

/// The id that the next prompt names the call by.
fn make_id(request: &Request, name: &str, index: u32) -> String {
    format!("{name}:{}", request.history_calls + index)
}

static XTML: TagCalls = TagCalls {
    brackets: Brackets { open: "<|open|>", close: "<|close|>", end: "<|sep|>" },
    blocks: &["tools"],
    call: CallForm::Element { tag: "call", name: Slot::Attribute("tool") },
    param: ParamForm::Element { tag: "argument", key: Slot::Attribute("key") },
    typing: Typing::Named("type"),
    make_id: Some(make_id),
    entities: true,
    wire: TagWire { attributes: " index=\"#\"", ..TagWire::BASE },
    ..TagCalls::BASE
};

/// Kimi-K3. Some engines put spaces between special tokens, so both spellings are read.
pub(crate) const K3: Format = Format {
    name: "kimi_k3",
    description: "XTML channels: think, response, tools",
    catalogue: &["C3", "R23"],
    aliases: &[
        ("sglang", "kimi_k3"),
        ("vllm", "kimi_k3"),
        ("dynamo", "kimi_k3"),
        ("dynamo", "kimi-k3"),
        ("smg", "kimi_k3"),
        ("sglang-reasoning", "kimi_k3"),
        ("vllm-reasoning", "kimi_k3"),
        ("dynamo-reasoning", "kimi_k3"),
        ("dynamo-reasoning", "kimi-k3"),
        ("smg-reasoning", "kimi_k3"),
    ],
    models: &["Kimi-K3"],
    hints: &[(Hint::Architecture("KimiK3ForCausalLM"), 10), (Hint::Model("*kimi-k3*"), 8)],
    special_tokens: &["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"],
    think: Some(Think {
        open: &["<|open|>think<|sep|>", "<|open|> think <|sep|>"],
        close: &[
            "<|close|>think<|sep|>",
            "<|close|> think <|sep|>",
            "<|open|>response<|sep|>",
            "<|open|> response <|sep|>",
        ],
        drop_stray_close: true,
        ..Think::TAGS
    }),
    calls: Calls::Tags(&XTML),
    layout: Layout::LOOSE,
    end_tokens: &["<|end_of_msg|>"],
    dropped: &[
        "<|close|>response<|sep|>",
        "<|close|> response <|sep|>",
        "<|close|>message<|sep|>",
        "<|close|> message <|sep|>",
    ],
    // The frame of an answer that is empty.
    wire: Wire { before: "<|open|>response<|sep|><|close|>response<|sep|>", after: "<|close|>message<|sep|>" },
    ..Format::BASE
};

/// Kimi-VL and k1.5: reasoning in triangles, no tools.
pub(crate) const KIMI: Format = Format {
    name: "kimi",
    description: "Reasoning between triangles, no tool calls",
    catalogue: &["R17"],
    aliases: &[("sglang-reasoning", "kimi"), ("dynamo-reasoning", "kimi"), ("smg-reasoning", "kimi")],
    models: &["Kimi-VL Thinking", "k1.5"],
    hints: &[(Hint::Model("*kimi-vl*"), 8)],
    think: Some(Think { open: &["◁think▷"], close: &["◁/think▷"], ..Think::TAGS }),
    layout: Layout::LOOSE,
    end_tokens: &["<|im_end|>"],
    ..Format::BASE
};
