//! KV pools in memory: the layout of a block.
//!
//! A block holds, KV head by KV head, its keys as `[head_dim][tokens]` (so that one load has a number of many keys) and
//! its values as `[tokens][head_dim]`.

use super::memory::Lines;
use crate::ops::KvShape;

/// Where things are in a block, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLayout {
    pub(crate) tokens: usize,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
}

impl BlockLayout {
    pub(crate) fn new(tokens: usize, kv: KvShape) -> Self {
        Self { tokens, heads: kv.heads, head_dim: kv.head_dim }
    }

    /// Elements of a block.
    #[inline(always)]
    pub(crate) fn block(self) -> usize {
        2 * self.tokens * self.heads * self.head_dim
    }

    /// First key element of a head in a block.
    #[inline(always)]
    pub(crate) fn keys(self, block: u32, head: usize) -> usize {
        block as usize * self.block() + head * 2 * self.tokens * self.head_dim
    }

    /// First value element of a head in a block.
    #[inline(always)]
    pub(crate) fn values(self, block: u32, head: usize) -> usize {
        self.keys(block, head) + self.tokens * self.head_dim
    }
}

/// Memory of a pool, or of the states of all slots.
#[derive(Debug)]
pub(crate) struct PoolMemory {
    pub(crate) lines: Lines,
    unit: usize,
}

impl PoolMemory {
    /// `count` blocks (or slots) of `unit` bytes.
    pub(crate) fn new(unit: usize, count: usize) -> Self {
        Self { lines: Lines::zeros(unit * count), unit }
    }

    pub(crate) fn unit(&self, index: u32) -> &[u8] {
        &self.lines.bytes()[index as usize * self.unit..][..self.unit]
    }

    pub(crate) fn unit_mut(&mut self, index: u32) -> &mut [u8] {
        &mut self.lines.bytes_mut()[index as usize * self.unit..][..self.unit]
    }
}

/// Calls a generic function with the element type of a store.
macro_rules! by_store {
    ($store:expr, $f:ident ( $($arg:expr),* $(,)? )) => {
        match $store {
            $crate::ops::KvStore::F32 => $f::<f32>($($arg),*),
            $crate::ops::KvStore::F16 => $f::<$crate::cpu::element::F16>($($arg),*),
            $crate::ops::KvStore::Bf16 => $f::<$crate::cpu::element::Bf16>($($arg),*),
        }
    };
}
pub(crate) use by_store;
