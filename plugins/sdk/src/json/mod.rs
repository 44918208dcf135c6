//! Streaming JSON: a checker that copies valid text through, and string escaping.

mod check;
mod text;

pub use check::{Checker, Fed, is_value, object_text};
pub(crate) use text::plain;
pub use text::{decode, escape_into, quote};
