//! Format plugin of the DeepSeek family: DSML calls and `<think>` reasoning.

mod dsml;

use sluicegate_sdk::format::Plugin;

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("deepseek", env!("CARGO_PKG_VERSION"), "DeepSeek V3.2, V4 and V4.1", &[dsml::V4, dsml::V41, dsml::V32])
}

sluicegate_sdk::export!(crate::plugin);
