//! Format plugin of the Kimi family.

mod k2;

use sluicegate_sdk::format::Plugin;

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("kimi", env!("CARGO_PKG_VERSION"), "Kimi K2", &[k2::K2])
}

sluicegate_sdk::export!(crate::plugin);
