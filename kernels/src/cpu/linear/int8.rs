//! The output head in fast mode: int8 weights with a half-precision scale for each 32 columns, quantized at load.
//!
//! The checkpoint keeps the head in BF16; half the bytes of a decode step would be the head's. This is our choice, and
//! costs no measurable quality. `y[r] = sum_c float(dot_c) * (scale[r, c] * act_scale[c])`, cells of 32 columns ascending.
//!
//! A tile is 16 rows; a cell of it 512 bytes: group `g` of four places of a cell, row `r`, four columns.

use half::f16;

use super::pack::{Packer, by_tile};
use super::{Column, ROWS, floats_at};
use crate::cpu::cells::{CELL, Cell, Order, TILE};
use crate::cpu::isa::{Isa, Level, versions};
use crate::cpu::memory::Lines;
use crate::cpu::shared::Split;
use crate::tensor::Matrix;

/// Columns that share a scale.
pub(crate) const GROUP: usize = CELL;
/// Cache lines of a tile's cell.
const CELL_LINES: usize = ROWS * CELL / 64;

/// Packed weights and scales.
#[derive(Debug)]
pub(crate) struct Int8Tiles {
    cells: usize,
    weights: Lines,
    scales: Lines,
}

impl Int8Tiles {
    /// Quantizes a float matrix whose columns are a multiple of 32: `scale = f16(amax / 127)`, `q = round(w / scale)`.
    pub(crate) fn quantize(packer: &mut Packer<'_>, m: &Matrix) -> Self {
        let (cells, isa, order) = (m.cols / GROUP, packer.isa, Order::of(packer.isa));
        let tiles = m.rows.div_ceil(ROWS);
        let columns: [usize; CELL] = std::array::from_fn(|place| order.column(place));
        let mut weights = packer.arena.zeros(tiles * cells * ROWS * CELL);
        let mut scales = packer.arena.zeros(tiles * cells * size_of::<[f16; ROWS]>());
        let all_scales = Split::new(scales.elements_mut::<[f16; ROWS]>());
        by_tile(packer.threads, weights.lines_mut(), cells * CELL_LINES, &|tile, lines| {
            // SAFETY: each tile is handed out once.
            let scales = unsafe { all_scales.part(tile * cells, cells) };
            let mut group = [0f32; GROUP];
            for r in 0..ROWS.min(m.rows - tile * ROWS) {
                let row = (tile * ROWS + r) * m.cols;
                for (g, (lines, scales)) in lines.chunks_exact_mut(CELL_LINES).zip(scales.iter_mut()).enumerate() {
                    floats_at(&m.values, row + g * GROUP, &mut group);
                    let (scale, q) = quantize_group(isa, &group);
                    scales[r] = scale;
                    for (line, columns) in lines.iter_mut().zip(columns.as_chunks::<4>().0) {
                        line[4 * r..][..4].copy_from_slice(&columns.map(|k| q[k % CELL]));
                    }
                }
            }
        });
        Self { cells, weights, scales }
    }

    /// Multiplies one row tile with a batch: `cells` are those of `out.len()` tokens.
    pub(crate) fn multiply(&self, isa: Isa, tile: usize, cells: &[Cell], out: &mut [Column]) {
        assert!(cells.len() == self.cells * out.len(), "cells do not match the matrix");
        let weights = &self.weights.lines()[tile * self.cells * CELL_LINES..][..self.cells * CELL_LINES];
        let scales = &self.scales.elements()[tile * self.cells..][..self.cells];
        match isa.0 {
            Level::Portable => portable(weights, scales, cells, out),
            // SAFETY: an `Isa` of this level exists only where the processor has these features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { super::super::x86::avx2_int8(weights, scales, cells, out) },
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
    for (cells, out) in cells.chunks(scales.len() * TILE).zip(out.chunks_mut(TILE)) {
        let tokens = out.len();
        for (token, column) in out.iter_mut().enumerate() {
            for (r, y) in column.iter_mut().enumerate() {
                let mut acc = 0f32;
                for (c, scales) in scales.iter().enumerate() {
                    let cell = &cells[c * tokens + token];
                    let mut dot = 0i32;
                    for (place, &q) in cell.q.iter().enumerate() {
                        let w = weights[c * CELL_LINES + place / 4][r * 4 + place % 4] as i8;
                        dot += i32::from(w) * i32::from(q);
                    }
                    acc = (dot as f32).mul_add(scales[r].to_f32() * cell.scale, acc);
                }
                *y = acc;
            }
        }
    }
}
