//! Runs the CUDA kernels where there is no GPU. For tests and for `cargo run -p sluicegate-emulate`; no part of the product.
//!
//! A [`program::Program`] is buffers and launches, exactly those that the CUDA device makes. [`host`] runs it on a host build of
//! the same sources, plain or under AddressSanitizer or ThreadSanitizer; [`ptx`] on what nvcc made of them. [`cases`] are programs with
//! known answers. [`host::StandIn`] is a driver on that host build, for running the CUDA device itself.

pub mod cases;
pub mod check;
pub mod host;
pub mod mutate;
pub mod numbers;
pub mod program;
pub mod ptx;
pub mod shapes;
