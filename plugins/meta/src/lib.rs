//! Format plugin of the Llama family.

mod llama;
mod muse;
mod pythonic;

use sluicegate_sdk::format::Plugin;

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new(
        "meta",
        env!("CARGO_PKG_VERSION"),
        "Llama 3 and 4, Muse",
        &[llama::LLAMA3_JSON, pythonic::PYTHONIC, pythonic::LLAMA4_PYTHONIC, muse::MUSE],
    )
}

sluicegate_sdk::export!(crate::plugin);
