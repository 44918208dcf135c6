//! Everything a format plugin is made of: the text machine, the engines that read tool calls, the component exports.
//!
//! A format is a [`format::Format`]: data that says how one model family writes reasoning and tool calls. The machinery
//! here turns it into a streaming parser that keeps the five laws whatever the text and however it is cut:
//!
//! 1. Any chunking of the same output gives the same assembled result.
//! 2. No byte of a marker reaches content, reasoning or arguments; nothing is held longer than a marker needs.
//! 3. Argument deltas concatenate to one JSON object; a truncated call is never closed into valid JSON.
//! 4. Values are what the model wrote.
//! 5. Work is linear in the output; memory is bounded.

pub mod brace;
pub mod calls;
pub mod channels;
pub mod coerce;
pub mod config;
pub mod describe;
pub mod emit;
pub mod event;
pub mod format;
pub mod grammar;
pub mod json;
mod layout;
mod limit;
mod machine;
pub mod parser;
mod prose;
pub mod python;
pub mod run;
pub mod scan;
mod spare;
pub mod stream;
pub mod syntax;
pub mod tags;
pub mod template;
pub mod think;
pub mod tools;

#[cfg(target_arch = "wasm32")]
pub mod component;

/// Makes a crate a component: `export!(crate::plugin)` where `plugin` is a function that returns a
/// [`format::Plugin`]. A native build needs no exports.
#[cfg(not(target_arch = "wasm32"))]
#[macro_export]
macro_rules! export {
    ($plugin:path) => {};
}
