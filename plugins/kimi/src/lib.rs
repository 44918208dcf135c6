//! Format plugin of the Kimi family.

mod k2;
mod k3;

use sluicegate_sdk::format::Plugin;

/// The formats of this component.
pub fn plugin() -> Plugin {
    Plugin::new("kimi", env!("CARGO_PKG_VERSION"), "Kimi K2, K3 and VL", &[k2::K2, k3::K3, k3::KIMI])
}

sluicegate_sdk::export!(crate::plugin);
