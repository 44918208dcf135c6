//! Format plugin of labs with one format each, by engine.

mod channels;
mod json;
mod pairs;
mod python;
mod tags;
mod template;

use sluicegate_sdk::format::Plugin;

/// The formats of this component.
pub fn plugin() -> Plugin {
    let formats = [json::ALL, tags::ALL, pairs::ALL, python::ALL, channels::ALL, template::ALL].concat();
    Plugin::new("labs", env!("CARGO_PKG_VERSION"), "Formats of labs with one format each", &formats)
}

sluicegate_sdk::export!(crate::plugin);
