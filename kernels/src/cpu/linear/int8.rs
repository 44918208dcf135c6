//! The output head in fast mode: int8 weights with a half-precision scale for each 32 columns, quantized at load.
//!
//! The checkpoint keeps the head in BF16; half the bytes of a decode step would be the head's. This is our choice, and
//! costs no measurable quality. `y[r] = sum_b float(dot_b) * (scale[r, b / 2] * act_scale[b])`, blocks of 16 ascending.
//!
//! A tile is 16 rows; a block of it 256 bytes: column group `g` of four, row `r`, four columns.

use half::f16;

use super::{Column, Line, ROWS, float_at};
use crate::cpu::cells::{CELL, Cell};
use crate::cpu::isa::{Isa, Level};
use crate::tensor::Matrix;

/// Columns that share a scale.
pub(crate) const GROUP: usize = 32;
/// Cache lines of a tile's block.
const BLOCK_LINES: usize = ROWS * CELL / 64;

/// Packed weights and scales.
#[derive(Debug)]
pub(crate) struct Int8Tiles {
    blocks: usize,
    weights: Vec<Line>,
    scales: Vec<[f16; ROWS]>,
}

impl Int8Tiles {
    /// Quantizes a float matrix whose columns are a multiple of 32: `scale = f16(amax / 127)`, `q = round(w / scale)`.
    pub(crate) fn quantize(m: &Matrix) -> Self {
        let blocks = m.cols / CELL;
        let tiles = m.rows.div_ceil(ROWS);
        let mut weights = Line::zeros(tiles * blocks * ROWS * CELL);
        let mut scales = vec![[f16::ZERO; ROWS]; tiles * blocks / 2];
        let mut group = [0f32; GROUP];
        for row in 0..m.rows {
            let (tile, r) = (row / ROWS, row % ROWS);
            for g in 0..blocks / 2 {
                for (i, v) in group.iter_mut().enumerate() {
                    *v = float_at(&m.values, row * m.cols + g * GROUP + i);
                }
                let amax = group.iter().fold(0f32, |a, x| a.max(x.abs()));
                let scale = f16::from_f32(amax / 127.0);
                let inverse = if scale > f16::ZERO { 1.0 / scale.to_f32() } else { 0.0 };
                scales[tile * blocks / 2 + g][r] = scale;
                for (i, v) in group.iter().enumerate() {
                    // The scale's own rounding may push the largest magnitude past 127.
                    let q = (v * inverse).round_ties_even().clamp(-127.0, 127.0) as i8;
                    let block = tile * blocks + g * 2 + i / CELL;
                    weights[block * BLOCK_LINES + i % CELL / 4].0[r * 4 + i % 4] = q as u8;
                }
            }
        }
        Self { blocks, weights, scales }
    }

    /// Multiplies one row tile with one token tile, as [`super::nvfp4::Nvfp4Tiles::multiply`].
    #[inline]
    pub(crate) fn multiply(&self, isa: Isa, tile: usize, cells: &[Cell], out: &mut [Column]) {
        assert!(cells.len() == self.blocks * out.len(), "cells do not match the matrix");
        let lines = &self.weights[tile * self.blocks * BLOCK_LINES..][..self.blocks * BLOCK_LINES];
        // SAFETY: a `Line` is 64 bytes without padding.
        let weights: &[[u8; 64]] = unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len()) };
        let scales = &self.scales[tile * self.blocks / 2..][..self.blocks / 2];
        match isa.0 {
            Level::Portable => portable(weights, scales, cells, out),
            // SAFETY: an `Isa` of this level exists only where the processor has these features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { super::super::x86::avx2::int8(weights, scales, cells, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { super::super::x86::avx512::int8(weights, scales, cells, out) },
        }
    }
}

/// The specification of the integer kernels.
fn portable(weights: &[[u8; 64]], scales: &[[f16; ROWS]], cells: &[Cell], out: &mut [Column]) {
    let tokens = out.len();
    for (token, column) in out.iter_mut().enumerate() {
        for (r, y) in column.iter_mut().enumerate() {
            let mut acc = 0f32;
            for b in 0..scales.len() * 2 {
                let cell = &cells[b * tokens + token];
                let mut dot = 0i32;
                for (k, &q) in cell.q.iter().enumerate() {
                    let w = weights[b * BLOCK_LINES + k / 4][r * 4 + k % 4] as i8;
                    dot += i32::from(w) * i32::from(q);
                }
                acc = (dot as f32).mul_add(scales[b / 2][r].to_f32() * cell.scale, acc);
            }
            *y = acc;
        }
    }
}
