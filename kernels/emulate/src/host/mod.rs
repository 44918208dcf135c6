//! The host build: the kernels compiled by a C++ compiler, one fiber for each CUDA thread, in a process of their own.

mod compile;
mod driver;
mod process;

pub use compile::{Build, Toolchain};
pub use driver::{IMAGE, StandIn};
pub use process::{Options, run};
