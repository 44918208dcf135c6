//! Format plugin of the DeepSeek family: DSML calls and `<think>` reasoning.

mod dsml;
mod sections;

use sluicegate_sdk::format::Plugin;

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new(
        "deepseek",
        env!("CARGO_PKG_VERSION"),
        "DeepSeek V3 to V4.1 and R1",
        &[dsml::V4, dsml::V41, dsml::V32, sections::V31, sections::V3, sections::R1],
    )
}

sluicegate_sdk::export!(crate::plugin);
