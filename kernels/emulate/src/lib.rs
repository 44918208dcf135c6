//! Runs the CUDA kernels where there is no GPU. For tests and for `cargo run -p sluicegate-emulate`; no part of the product.
//!
//! A [`program::Program`] is buffers and launches, exactly those that the CUDA device makes. [`host`] runs it on a host build of
//! the same sources, plain or under AddressSanitizer or ThreadSanitizer. [`cases`] are programs with known answers.

pub mod cases;
pub mod host;
pub mod numbers;
pub mod program;
