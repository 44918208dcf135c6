//! Format plugin `my_format`: a list of Python calls between markers.

use sluicegate_sdk::describe::Hint;
use sluicegate_sdk::emit::Layout;
use sluicegate_sdk::format::{Calls, Format, Plugin};
use sluicegate_sdk::python::PythonCalls;
use sluicegate_sdk::think::Think;

/// `[f(a=1), g()]` between markers.
static CALLS: PythonCalls =
    PythonCalls { opens: &["<|my_start|>"], closes: &["<|my_end|>"], bare: false, ..PythonCalls::BASE };

/// The format, as the gateway's configuration names it.
const MY_FORMAT: Format = Format {
    name: "my_format",
    description: "Python calls between <|my_start|> and <|my_end|>, <think> reasoning",
    models: &["the models that speak it"],
    // How `format = "auto"` recognises them; the most weight wins.
    hints: &[(Hint::Model("*my-model*"), 8), (Hint::Template("<|my_start|>"), 10)],
    // Added tokens of the vocabulary that must reach the parser as text.
    special_tokens: &[],
    // Reasoning: where it begins is read from the end of the prompt; otherwise the model opens it.
    think: Some(Think::TAGS),
    calls: Calls::Python(&CALLS),
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
