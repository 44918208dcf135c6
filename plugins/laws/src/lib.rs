//! Tests that every format plugin must pass, run natively: recorded cases, every chunking, generated conversations.

pub mod assemble;
pub mod bounded;
mod broken;
pub mod by_tokens;
pub mod case;
pub mod constrained;
pub mod encode;
pub mod one;
pub mod schema;
pub mod talk;
pub mod tools;
pub mod walk;

pub use sluicegate_cases::chunking;
