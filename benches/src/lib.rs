//! Benchmarks: what they measure with, and on what.

pub mod bandwidth;
pub mod clock;
pub mod wires;
