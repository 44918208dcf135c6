//! Tests that every format plugin must pass, run natively: recorded cases, every chunking, generated conversations.

pub mod assemble;
pub mod case;
pub mod chunking;
pub mod encode;
pub mod talk;
pub mod tools;
