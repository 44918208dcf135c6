//! Runs the PTX that nvcc emits, inline assembly included, on the CPU: small launches, for tests.
//!
//! One thread after another, each until it waits for others. Device memory is a set of buffers, so an access outside of one, or
//! a misaligned one, is an error that names the instruction, the thread and the block. What is not interpreted is
//! refused by name and line when its kernel is asked for, never skipped.
//!
//! Sources: the PTX ISA 9.0 reference, whose fragment layouts and corner cases (saturation, NaN, out-of-range shifts) are
//! followed. Approximate functions are computed in double precision and rounded once; a GPU may differ by a few units in
//! the last place. Tensor-core products are exact and summed in double precision; a GPU truncates a little.

mod ir;
mod memory;
mod numbers;
mod parse;
mod run;
mod types;

pub use ir::Kernel;
pub use memory::Memory;
pub use parse::Module;
pub use run::Argument;

/// Why PTX can't be read or a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PtxError {
    /// The text is no PTX, or uses what is not interpreted.
    #[error("PTX line {line}: {message}")]
    Text {
        /// Line of the module's text, from 1.
        line: u32,
        /// What is wrong.
        message: String,
    },
    /// There is no such kernel.
    #[error("there is no kernel named `{0}` in the module")]
    NoKernel(String),
    /// The launch does not fit the kernel.
    #[error("launch of `{kernel}`: {message}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        message: String,
    },
    /// A thread did what it must not.
    #[error("`{kernel}`, PTX line {line}, thread {thread} of block {block:?}: {message}")]
    Fault {
        /// The kernel.
        kernel: String,
        /// Line of the module's text, from 1.
        line: u32,
        /// Number of the thread in its block.
        thread: u32,
        /// The block.
        block: [u32; 3],
        /// What happened.
        message: String,
    },
    /// Threads wait for each other forever.
    #[error("`{kernel}`, block {block:?} can't go on: {message}")]
    Stall {
        /// The kernel.
        kernel: String,
        /// The block.
        block: [u32; 3],
        /// How many threads wait where.
        message: String,
    },
}
