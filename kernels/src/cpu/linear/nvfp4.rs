//! NVFP4 weights against int8 cells: the integer dot product is exact, so every instruction set gives the same bits.
//!
//! `y[r] = (sum_b float(dot_b) * (scale[r, b] * 2^-8 * act_scale[b])) * (global * 2^7)`: blocks ascending, one fused
//! multiply-add a block; `dot_b` is the dot product of twice the E2M1 numbers with the quantized activations.
//!
//! A tile is 16 rows; a block of it 128 bytes: in half `z` (64 bytes) the four bytes of row `r` hold columns `8z + t` in
//! the low nibbles and `8z + 4 + t` in the high ones. The 16 block scales lie apart.

use super::{Column, Line, ROWS};
use crate::cpu::cells::{CELL, Cell};
use crate::cpu::isa::{Isa, Level};
use crate::fp8::e4m3_to_f32;

/// Twice the E2M1 numbers, plus 12 to make them unsigned.
const BIASED: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];
/// Bytes of a tile's block.
const BLOCK_BYTES: usize = ROWS * CELL / 2;

/// Packed codes and scales.
#[derive(Debug)]
pub(crate) struct Nvfp4Tiles {
    pub(crate) blocks: usize,
    codes: Vec<Line>,
    scales: Vec<u8>,
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
    /// Repacks row-major codes; missing rows of the last tile are zero.
    pub(crate) fn pack(rows: usize, cols: usize, codes: &[u8], scales: &[u8], global: f32) -> Self {
        let blocks = cols / CELL;
        let tiles = rows.div_ceil(ROWS);
        let mut packed = Line::zeros(tiles * blocks * BLOCK_BYTES);
        let mut packed_scales = vec![0; tiles * blocks * ROWS];
        for row in 0..rows {
            let (tile, r) = (row / ROWS, row % ROWS);
            for b in 0..blocks {
                let source: &[u8] = &codes[(row * blocks + b) * 8..][..8];
                let cell = tile * blocks + b;
                packed_scales[cell * ROWS + r] = scales[row * blocks + b];
                for z in 0..2 {
                    let nibble = |k: usize| (source[z * 4 + k / 2] >> (k % 2 * 4)) & 15;
                    let to = &mut packed[cell * 2 + z].0[r * 4..][..4];
                    for (t, byte) in to.iter_mut().enumerate() {
                        *byte = nibble(t) | nibble(t + 4) << 4;
                    }
                }
            }
        }
        Self { blocks, codes: packed, scales: packed_scales, global: global * 128.0 }
    }

    fn tile(&self, tile: usize) -> Tile<'_> {
        let codes = &self.codes[tile * self.blocks * 2..][..self.blocks * 2];
        // SAFETY: a `Line` is 64 bytes without padding.
        let codes = unsafe { std::slice::from_raw_parts(codes.as_ptr().cast(), codes.len()) };
        Tile { codes, scales: self.scales[tile * self.blocks * ROWS..][..self.blocks * ROWS].as_chunks().0 }
    }

    /// Multiplies one row tile with one token tile: `cells` is `blocks` times `out.len()` (1 to 8) tokens.
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
        for column in out {
            for v in column {
                *v *= self.global;
            }
        }
    }
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
