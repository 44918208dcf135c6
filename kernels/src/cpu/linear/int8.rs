//! The output head in fast mode: int8 weights with a half-precision scale for each 32 columns, quantized at load.
//!
//! The checkpoint keeps the head in BF16; half the bytes of a decode step would be the head's. This is our choice, and
//! costs no measurable quality. `y[r] = sum_b float(dot_b) * (scale[r, b / 2] * act_scale[b])`, blocks of 16 ascending.
//!
//! A tile is 16 rows; a block of it 256 bytes: column group `g` of four, row `r`, four columns.

use half::f16;

use super::pack::by_tile;
use super::{Column, ROWS, floats_at};
use crate::cpu::cells::{CELL, Cell};
use crate::cpu::isa::{Isa, Level, versions};
use crate::cpu::memory::Lines;
use crate::cpu::shared::Split;
use crate::cpu::threads::Threads;
use crate::tensor::Matrix;

/// Columns that share a scale.
pub(crate) const GROUP: usize = 32;
/// Cache lines of a tile's block.
const BLOCK_LINES: usize = ROWS * CELL / 64;

/// Packed weights and scales.
#[derive(Debug)]
pub(crate) struct Int8Tiles {
    blocks: usize,
    weights: Lines,
    scales: Vec<[f16; ROWS]>,
}

impl Int8Tiles {
    /// Quantizes a float matrix whose columns are a multiple of 32: `scale = f16(amax / 127)`, `q = round(w / scale)`.
    pub(crate) fn quantize(threads: &mut Threads, isa: Isa, m: &Matrix) -> Self {
        let blocks = m.cols / CELL;
        let tiles = m.rows.div_ceil(ROWS);
        let mut weights = Lines::zeros(tiles * blocks * ROWS * CELL);
        let mut scales = vec![[f16::ZERO; ROWS]; tiles * blocks / 2];
        let all_scales = Split::new(&mut scales);
        by_tile(threads, weights.lines_mut(), blocks * BLOCK_LINES, &|tile, lines| {
            // SAFETY: each tile is handed out once.
            let scales = unsafe { all_scales.part(tile * blocks / 2, blocks / 2) };
            let mut group = [0f32; GROUP];
            for r in 0..ROWS.min(m.rows - tile * ROWS) {
                let row = (tile * ROWS + r) * m.cols;
                for (g, (lines, scales)) in lines.chunks_exact_mut(BLOCK_LINES * 2).zip(scales.iter_mut()).enumerate() {
                    floats_at(&m.values, row + g * GROUP, &mut group);
                    let (scale, q) = quantize_group(isa, &group);
                    scales[r] = scale;
                    for (line, q) in lines.iter_mut().zip(q.as_chunks::<4>().0) {
                        line[r * 4..][..4].copy_from_slice(q);
                    }
                }
            }
        });
        Self { blocks, weights, scales }
    }

    /// Multiplies one row tile with one token tile, as [`super::nvfp4::Nvfp4Tiles::multiply`].
    #[inline]
    pub(crate) fn multiply(&self, isa: Isa, tile: usize, cells: &[Cell], out: &mut [Column]) {
        assert!(cells.len() == self.blocks * out.len(), "cells do not match the matrix");
        let weights = &self.weights.lines()[tile * self.blocks * BLOCK_LINES..][..self.blocks * BLOCK_LINES];
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

#[inline(always)]
fn quantize_group_body(group: &[f32; GROUP]) -> (f16, [u8; GROUP]) {
    let mut amax = 0f32;
    for v in group {
        amax = if v.abs() > amax { v.abs() } else { amax };
    }
    let scale = f16::from_f32(amax / 127.0);
    let inverse = if scale > f16::ZERO { 1.0 / scale.to_f32() } else { 0.0 };
    let mut out = [0u8; GROUP];
    for (q, v) in out.iter_mut().zip(group) {
        // The scale's own rounding may push the largest magnitude past 127. Adding 1.5 * 2^23 rounds to an integer.
        let v = (v * inverse).clamp(-127.0, 127.0);
        *q = (v + 12_582_912.0).to_bits() as u8;
    }
    (scale, out)
}

versions! {
    fn quantize_group = quantize_group_body(group: &[f32; GROUP]) -> (f16, [u8; GROUP])
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
