//! KV pools in memory: number formats and the layout of a block.
//!
//! A block holds, KV head by KV head, its keys as `[head_dim][tokens]` (so that one load has a number of many keys) and
//! its values as `[tokens][head_dim]`.

use half::f16;

use super::linear::Line;
use crate::ops::KvShape;

/// A stored number.
pub(crate) trait Element: Copy + Send + Sync {
    /// Exact.
    fn widen(self) -> f32;
    /// Rounds to nearest, ties to even.
    fn narrow(v: f32) -> Self;
}

impl Element for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(v: f32) -> Self {
        v
    }
}

/// bfloat16 by its bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Bf16(u16);

impl Element for Bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
    #[inline(always)]
    fn narrow(v: f32) -> Self {
        let bits = v.to_bits();
        Self(((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16)
    }
}

/// Half precision by its bits; never infinite.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct F16(u16);

impl Element for F16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        // Rebasing the exponent by a multiplication is exact, subnormals included.
        let magnitude = f32::from_bits(u32::from(self.0 & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
        f32::from_bits(magnitude.to_bits() | u32::from(self.0 & 0x8000) << 16)
    }
    #[inline(always)]
    fn narrow(v: f32) -> Self {
        Self(f16::from_f32(v.clamp(-65504.0, 65504.0)).to_bits())
    }
}

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

/// Bytes of a pool, aligned for vector loads.
#[derive(Debug)]
pub(crate) struct PoolMemory {
    lines: Vec<Line>,
    pub(crate) block_bytes: usize,
}

impl PoolMemory {
    pub(crate) fn new(block_bytes: usize, blocks: usize) -> Self {
        Self { lines: Line::zeros(block_bytes * blocks), block_bytes }
    }

    pub(crate) fn bytes(&self, block: u32) -> &[u8] {
        &self.elements::<u8>()[block as usize * self.block_bytes..][..self.block_bytes]
    }

    pub(crate) fn bytes_mut(&mut self, block: u32) -> &mut [u8] {
        let (from, len) = (block as usize * self.block_bytes, self.block_bytes);
        &mut self.elements_mut::<u8>()[from..][..len]
    }

    pub(crate) fn elements<T: Plain>(&self) -> &[T] {
        let len = self.lines.len() * 64 / size_of::<T>();
        // SAFETY: `T` is plain numbers (sealed below), the memory is initialised and aligned to 64 bytes.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), len) }
    }

    pub(crate) fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        let len = self.lines.len() * 64 / size_of::<T>();
        // SAFETY: as above, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), len) }
    }
}

/// Numbers of at most 64 bytes' alignment for which any bytes are valid.
pub(crate) trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for f32 {}
impl Plain for Bf16 {}
impl Plain for F16 {}

/// Calls a generic function with the element type of a store.
macro_rules! by_store {
    ($store:expr, $f:ident ( $($arg:expr),* $(,)? )) => {
        match $store {
            $crate::ops::KvStore::F32 => $f::<f32>($($arg),*),
            $crate::ops::KvStore::F16 => $f::<$crate::cpu::kv::F16>($($arg),*),
            $crate::ops::KvStore::Bf16 => $f::<$crate::cpu::kv::Bf16>($($arg),*),
        }
    };
}
pub(crate) use by_store;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_agree_with_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), half::bf16::from_bits(bits));
            if h.is_finite() {
                assert_eq!(F16(bits).widen().to_bits(), h.to_f32().to_bits());
                assert_eq!(F16::narrow(h.to_f32()).0, bits);
            }
            if b.is_finite() {
                assert_eq!(Bf16(bits).widen().to_bits(), b.to_f32().to_bits());
                assert_eq!(Bf16::narrow(b.to_f32()).0, bits);
                let between = f32::from_bits(b.to_f32().to_bits() | 0x8000);
                assert_eq!(Bf16::narrow(between).0, half::bf16::from_f32(between).to_bits());
            }
        }
        assert_eq!(F16::narrow(1e9).widen(), 65504.0);
    }
}
