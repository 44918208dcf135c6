//! NVFP4 weights against int8 cells: the integer dot product is exact, so every instruction set gives the same bits.
//!
//! `y[r] = (sum_b float(dot_b) * (scale[r, b] * 2^-8 * act_scale[b])) * (global * 2^7)`: blocks ascending, one fused
//! multiply-add a block; `dot_b` is the dot product of twice the E2M1 numbers with the quantized activations.
//!
//! A tile is 16 rows; a block of it 128 bytes: in half `z` (64 bytes) the four bytes of row `r` hold columns `8z + t` in
//! the low nibbles and `8z + 4 + t` in the high ones. The 16 block scales lie apart.

use super::pack::{by_tile, transposed};
use super::{Column, ROWS};
use crate::cpu::cells::{CELL, Cell};
use crate::cpu::isa::{Isa, Level};
use crate::cpu::memory::Lines;
use crate::cpu::threads::Threads;
use crate::fp8::e4m3_to_f32;

/// Twice the E2M1 numbers, plus 12 to make them unsigned.
const BIASED: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];
/// Bytes of a tile's block.
const BLOCK_BYTES: usize = ROWS * CELL / 2;

/// Packed codes and scales.
#[derive(Debug)]
pub(crate) struct Nvfp4Tiles {
    pub(crate) blocks: usize,
    codes: Lines,
    scales: Vec<[u8; ROWS]>,
    /// Tensor scale times 2^7: undoes the doubled codes and the 2^-8 of the block scales.
    global: f32,
}

/// One tile's bytes.
#[derive(Clone, Copy)]
struct Tile<'a> {
    codes: &'a [[u8; 64]],
    scales: &'a [[u8; ROWS]],
}

impl Nvfp4Tiles {
    /// Repacks row-major codes and scales; missing rows of the last tile are zero.
    pub(crate) fn pack(
        threads: &mut Threads,
        (rows, cols): (usize, usize),
        codes: &[u8],
        scales: &[u8],
        global: f32,
    ) -> Self {
        let blocks = cols / CELL;
        let mut packed = Lines::zeros(rows.div_ceil(ROWS) * blocks * BLOCK_BYTES);
        by_tile(threads, packed.lines_mut(), blocks * 2, &|tile, lines| {
            for r in 0..ROWS.min(rows - tile * ROWS) {
                let row = &codes[(tile * ROWS + r) * blocks * 8..][..blocks * 8];
                for (half, line) in row.as_chunks::<4>().0.iter().zip(lines.iter_mut()) {
                    line[r * 4..][..4].copy_from_slice(&interleave(*half));
                }
            }
        });
        let scales = transposed(threads, (rows, blocks), 0, |r, b| scales[r * blocks + b]);
        Self { blocks, codes: packed, scales, global: global * 128.0 }
    }

    fn tile(&self, tile: usize) -> Tile<'_> {
        let codes = &self.codes.lines()[tile * self.blocks * 2..][..self.blocks * 2];
        Tile { codes, scales: &self.scales[tile * self.blocks..][..self.blocks] }
    }

    /// Multiplies one row tile with one token tile: `cells` is `blocks` times `out.len()` (1 to 6) tokens.
    #[inline]
    pub(crate) fn multiply(&self, isa: Isa, tile: usize, cells: &[Cell], out: &mut [Column]) {
        let t = self.tile(tile);
        assert!(cells.len() == self.blocks * out.len(), "cells do not match the matrix");
        match isa.0 {
            Level::Portable => portable(t, cells, out),
            // SAFETY: an `Isa` of this level exists only where the processor has these features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { super::super::x86::avx2::nvfp4(t.codes, t.scales, cells, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { super::super::x86::avx512::nvfp4(t.codes, t.scales, cells, out) },
        }
        self.finish(out);
    }

    /// Decodes a tile for [`Self::multiply_unpacked`]; false where the instruction set has no use for it.
    pub(crate) fn unpack(&self, isa: Isa, tile: usize, panel: &mut Vec<PanelBlock>) -> bool {
        match isa.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                let t = self.tile(tile);
                panel.resize(self.blocks, PanelBlock::ZERO);
                // SAFETY: an `Isa` of this level exists only where the processor has these features.
                unsafe { super::super::x86::avx2::unpack(t.codes, t.scales, panel) };
                true
            }
            _ => false,
        }
    }

    /// As [`Self::multiply`], from a decoded tile.
    pub(crate) fn multiply_unpacked(&self, isa: Isa, panel: &[PanelBlock], cells: &[Cell], out: &mut [Column]) {
        assert!(cells.len() == panel.len() * out.len(), "cells do not match the matrix");
        #[cfg(target_arch = "x86_64")]
        if isa.0 == Level::Avx2 {
            // SAFETY: an `Isa` of this level exists only where the processor has these features.
            unsafe { super::super::x86::avx2::nvfp4_panel(panel, cells, out) };
        }
        self.finish(out);
    }

    fn finish(&self, out: &mut [Column]) {
        for column in out {
            for v in column {
                *v *= self.global;
            }
        }
    }
}

/// A block of a tile, decoded: for each half of eight rows four groups of four columns of biased weights; and scales.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct PanelBlock {
    pub(crate) weights: [[[u8; 32]; 4]; 2],
    pub(crate) scales: [f32; ROWS],
}

impl PanelBlock {
    const ZERO: Self = Self { weights: [[[0; 32]; 4]; 2], scales: [0.0; ROWS] };
}

/// Eight codes, two a byte: from neighbours together to columns `t` and `t + 4` together.
fn interleave(half: [u8; 4]) -> [u8; 4] {
    let spread = |x: u32| {
        let x = (x | x << 8) & 0x00ff_00ff;
        (x | x << 4) & 0x0f0f_0f0f
    };
    let all = u32::from_le_bytes(half);
    (spread(all & 0xffff) | spread(all >> 16) << 4).to_le_bytes()
}

/// The specification of the integer kernels.
fn portable(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    let tokens = out.len();
    for (token, column) in out.iter_mut().enumerate() {
        for (r, y) in column.iter_mut().enumerate() {
            let mut acc = 0f32;
            for (b, scales) in tile.scales.iter().enumerate() {
                let cell = &cells[b * tokens + token];
                let mut dot = 0i32;
                for (k, &q) in cell.q.iter().enumerate() {
                    let byte = tile.codes[b * 2 + k / 8][r * 4 + k % 4];
                    let code = if k % 8 < 4 { byte & 15 } else { byte >> 4 };
                    dot += (i32::from(BIASED[code as usize]) - 12) * i32::from(q);
                }
                let scale = (e4m3_to_f32(scales[r]) / 256.0) * cell.scale;
                acc = (dot as f32).mul_add(scale, acc);
            }
            *y = acc;
        }
    }
}
