//! Grammars of answers and calls, compiled for a model's tokens: what makes `response_format` and `tool_choice` a promise.
//!
//! This is the only place that knows llguidance.

mod compile;
mod gate;
mod matcher;
mod sent;
mod source;
mod tokens;

pub use compile::{GrammarError, Grammars};
pub use sent::Compiler;
pub use source::{Rule, Spec};
pub use tokens::TokenSpace;
