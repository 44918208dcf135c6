//! Instructions of the interpreter, from PTX text that ptxas accepts, against Rust's arithmetic.

mod fault;
mod float;
mod integer;
mod matrix;
mod warp;

use sluicegate_ptx::{Argument, Memory, Module, PtxError};

/// Threads of a warp.
const LANES: usize = 32;

/// A launch of one kernel: the module's text, its name, grid and block in x, dynamic shared memory.
struct Launch<'a> {
    text: &'a str,
    kernel: &'a str,
    grid: u32,
    block: u32,
    shared: usize,
}

impl<'a> Launch<'a> {
    /// One warp, and a KiB of dynamic shared memory.
    fn warp(text: &'a str, kernel: &'a str) -> Self {
        Self { text, kernel, grid: 1, block: 32, shared: 1024 }
    }

    /// Runs with one buffer for each parameter and gives the buffers back.
    fn run(&self, buffers: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, PtxError> {
        let mut memory = Memory::new();
        let addresses: Vec<u64> = buffers.into_iter().map(|b| memory.add(b)).collect();
        let arguments: Vec<Argument> = addresses.iter().map(|&a| a.into()).collect();
        let kernel = Module::parse(self.text)?.kernel(self.kernel)?;
        kernel.launch(&mut memory, [self.grid, 1, 1], [self.block, 1, 1], self.shared, &arguments)?;
        Ok(addresses.iter().map(|&a| memory.buffer(a).to_vec()).collect())
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Words that look random.
fn noise(seed: u32, count: usize) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..count).map(|_| next()).collect()
}
