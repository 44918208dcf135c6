//! Where work runs on a GPU: choices that cost or save time and never change a result.

use crate::cuda::calls::{QueryRows, TileRows};

/// See the file's head. The defaults are guesses for large cards; `sluicegate tune` measures better ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Knobs {
    /// Blocks that an attention launch should have, if there are units enough: several for each multiprocessor.
    pub attention_blocks: u32,
    /// Steps of at least so many rows use attention's kernel for many rows.
    pub attention_many_rows: u32,
    /// Products of at least so many rows use tiles of 64; fewer than 17 may use the kernel for few.
    pub gemm_64_rows: u32,
    /// Products of at least so many rows use tiles of 128.
    pub gemm_128_rows: u32,
    /// Whether recordings are kept for 24 and 48 rows too, instead of for powers of two alone.
    pub fine_buckets: bool,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            attention_blocks: 512,
            attention_many_rows: 65,
            gemm_64_rows: 17,
            gemm_128_rows: 256,
            fine_buckets: true,
        }
    }
}

/// Rows that the kernel for few rows can do.
const FEW: u32 = 16;

impl Knobs {
    /// Tiles of a product.
    pub(super) fn tile(&self, rows: u32) -> TileRows {
        if rows >= self.gemm_128_rows {
            TileRows::Many
        } else if rows > FEW || rows >= self.gemm_64_rows {
            TileRows::Some
        } else {
            TileRows::Few
        }
    }

    /// Attention's kernel.
    pub(super) fn query_rows(&self, rows: u32) -> QueryRows {
        if rows < self.attention_many_rows { QueryRows::Few } else { QueryRows::Many }
    }

    /// The recording that serves `count` rows.
    pub(super) fn bucket(&self, count: usize, most: usize) -> u32 {
        let between = match count {
            17..=24 => Some(24),
            33..=48 => Some(48),
            _ => None,
        };
        let up = between.filter(|_| self.fine_buckets).unwrap_or_else(|| count.next_power_of_two());
        up.min(most).max(1) as u32
    }
}
