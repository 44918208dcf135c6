//! Format plugin of the Qwen family and of the models that share its wire: JSON calls in `<tool_call>`.

mod coder;
mod hermes;

use sluicegate_sdk::format::Plugin;

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new(
        "qwen",
        env!("CARGO_PKG_VERSION"),
        "Qwen 2.5 and 3, Hermes and their kin",
        &[hermes::QWEN3, hermes::HERMES, coder::QWEN3_CODER],
    )
}

sluicegate_sdk::export!(crate::plugin);
