//! Format plugin `my_format`: one tag for each parameter.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::tags::{CallForm, ParamForm, Slot, TagCalls};
use sluicegate_sdk::think::Think;

/// `<my_calls><invoke name="f"><parameter name="k">v</parameter></invoke></my_calls>`; the schema types the values.
static CALLS: TagCalls = TagCalls {
    blocks: &["my_calls"],
    call: CallForm::Element { tag: "invoke", name: Slot::Attribute("name") },
    param: ParamForm::Element { tag: "parameter", key: Slot::Attribute("name") },
    ..TagCalls::BASE
};

/// The format, as the gateway's configuration names it.
const MY_FORMAT: Format = Format {
    name: "my_format",
    description: "Invoke elements in <my_calls>, <think> reasoning",
    models: &["the models that speak it"],
    // How `format = "auto"` recognises them; the most weight wins.
    hints: &[(Hint::Model("*my-model*"), 8), (Hint::Template("<my_calls>"), 10)],
    // Added tokens of the vocabulary that must reach the parser as text.
    special_tokens: &[],
    // Reasoning: where it begins is read from the end of the prompt; otherwise the model opens it.
    think: Some(Think::TAGS),
    calls: Calls::Tags(&CALLS),
    layout: Layout::LOOSE,
    // Engines may leave these at the end of the text.
    end_tokens: &["<|im_end|>"],
    ..Format::BASE
};

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("my-format", env!("CARGO_PKG_VERSION"), "What my_format's models speak", &[MY_FORMAT])
}

sluicegate_sdk::export!(crate::plugin);
