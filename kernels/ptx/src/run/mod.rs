//! Launching: the blocks of a grid one after another, the threads of a block in turns.

mod access;
mod block;
mod convert;
mod copies;
mod float;
mod integer;
mod matrix;
mod step;
mod thread;
mod warp;

use crate::ir::Kernel;
use crate::{Memory, PtxError};
use block::Block;

/// A kernel argument's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument(Vec<u8>);

macro_rules! arguments {
    ($($number:ty),*) => { $(
        impl From<$number> for Argument {
            fn from(value: $number) -> Self {
                Self(value.to_le_bytes().to_vec())
            }
        }
    )* };
}
arguments!(u8, u16, u32, i32, u64, i64, f32);

impl Argument {
    /// A structure that is passed by value.
    #[must_use]
    pub fn bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

/// What the blocks of a launch share.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: usize,
    pub(crate) parameters: Vec<u8>,
}

impl Kernel {
    /// Name of the kernel.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a grid, and tells how many instructions that took, all threads together.
    ///
    /// # Errors
    /// [`PtxError::Launch`], [`PtxError::Fault`] or [`PtxError::Stall`].
    pub fn launch(
        &self,
        memory: &mut Memory,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: usize,
        arguments: &[Argument],
    ) -> Result<u64, PtxError> {
        let refused = |message: String| PtxError::Launch { kernel: self.name.clone(), message };
        let threads: u64 = block.iter().map(|&n| u64::from(n)).product();
        if threads == 0 || threads > 1024 || grid.contains(&0) {
            return Err(refused(format!("grid {grid:?} of blocks {block:?} is impossible")));
        }
        let parameters = self.parameters(arguments).map_err(refused)?;
        let launch = Launch { kernel: self, grid, block, dynamic_shared, parameters };
        let mut steps = 0;
        for z in 0..grid[2] {
            for y in 0..grid[1] {
                for x in 0..grid[0] {
                    steps += Block::new(&launch, [x, y, z], memory).run()?;
                }
            }
        }
        Ok(steps)
    }

    fn parameters(&self, arguments: &[Argument]) -> Result<Vec<u8>, String> {
        if arguments.len() != self.parameters.len() {
            return Err(format!("{} arguments for {} parameters", arguments.len(), self.parameters.len()));
        }
        let mut all = Vec::new();
        for (i, (parameter, Argument(bytes))) in self.parameters.iter().zip(arguments).enumerate() {
            if bytes.len() != parameter.bytes {
                return Err(format!("argument {i} has {} bytes, the parameter {}", bytes.len(), parameter.bytes));
            }
            all.resize(parameter.offset, 0);
            all.extend_from_slice(bytes);
        }
        Ok(all)
    }
}
