//! Activations as int8: 16 numbers share a scale. This is what NVFP4 and int8 weights are multiplied with in fast mode.
//!
//! `scale = amax / 127`, `q = round_ties_even(x * (127 / amax))`; all zero when amax is 0. Cells of up to six rows are
//! interleaved, so that a kernel that works on six tokens reads one stream.

use super::isa::versions;
use super::math::{LANES, Lanes, max};
use super::shared::Split;

/// Numbers in a cell.
pub(crate) const CELL: usize = 16;
/// Rows that are interleaved.
/// Six: with more, AVX2's sixteen registers overflow (measured: 72 instead of 65 billion products a second).
pub(crate) const TILE: usize = 6;

/// Sixteen quantized numbers and what kernels need beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(32))]
pub(crate) struct Cell {
    /// Quantized numbers.
    pub(crate) q: [i8; CELL],
    /// `-12 * sum(q)`: takes back the +12 that makes twice an E2M1 number unsigned.
    pub(crate) minus_12: i32,
    /// `-128 * sum(q)`: takes back the +128 that makes an int8 weight unsigned.
    pub(crate) minus_128: i32,
    /// Real number per quantized unit.
    pub(crate) scale: f32,
}

/// Index of a cell: tile by tile of six rows (the last may be narrower), in a tile block by block, in a block row by row.
#[inline(always)]
pub(crate) fn cell_index(rows: usize, blocks: usize, row: usize, block: usize) -> usize {
    let first = row / TILE * TILE;
    let wide = TILE.min(rows - first);
    first * blocks + block * wide + (row - first)
}

#[inline(always)]
fn quantize(x: &Lanes) -> Cell {
    let mut magnitude = [0f32; LANES];
    for i in 0..LANES {
        magnitude[i] = x[i].abs();
    }
    let amax = max(magnitude);
    let (scale, inverse) = if amax > 0.0 { (amax / 127.0, 127.0 / amax) } else { (0.0, 0.0) };
    let mut cell = Cell { scale, ..Cell::default() };
    let mut sum = 0;
    for i in 0..LANES {
        // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even; |x * inverse| is at most 127.
        let q = (x[i] * inverse + 12_582_912.0).to_bits() as u8 as i8;
        cell.q[i] = q;
        sum += i32::from(q);
    }
    cell.minus_12 = -12 * sum;
    cell.minus_128 = -128 * sum;
    cell
}

/// Where a row's blocks go.
#[derive(Clone, Copy)]
pub(crate) struct CellRow<'a> {
    pub(crate) cells: &'a Split<'a, Cell>,
    pub(crate) rows: usize,
    pub(crate) blocks: usize,
    pub(crate) row: usize,
}

impl CellRow<'_> {
    /// Stores a block.
    ///
    /// # Safety
    /// No other thread may write this row's block.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, block: usize, cell: Cell) {
        // SAFETY: one cell, which is the caller's alone.
        unsafe { self.cells.part(cell_index(self.rows, self.blocks, self.row, block), 1)[0] = cell };
    }
}

#[inline(always)]
fn fill_body(x: &[f32], first_block: usize, to: CellRow<'_>) {
    for (b, block) in x.as_chunks::<CELL>().0.iter().enumerate() {
        // SAFETY: `fill`'s caller owns these blocks of the row.
        unsafe { to.put(first_block + b, quantize(block)) };
    }
}

versions! {
    /// Quantizes consecutive blocks of a row; the caller is the only one who writes them.
    pub(crate) fn fill = fill_body(x: &[f32], first_block: usize, to: CellRow<'_>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_nearest_even_and_sums() {
        let x: Lanes = std::array::from_fn(|i| if i == 0 { -127.0 } else { i as f32 + 0.5 });
        let cell = quantize(&x);
        let q: Vec<i8> =
            (0..16).map(|i| if i == 0 { -127 } else { (i as f32 + 0.5).round_ties_even() as i8 }).collect();
        assert_eq!(cell.q.to_vec(), q);
        let sum: i32 = q.iter().map(|&v| i32::from(v)).sum();
        assert_eq!((cell.minus_12, cell.minus_128, cell.scale), (-12 * sum, -128 * sum, 1.0));
        assert_eq!(quantize(&[0.0; 16]), Cell::default());
    }

    #[test]
    fn cells_of_a_batch_have_distinct_places() {
        for rows in 1..20 {
            let mut seen = vec![false; rows * 5];
            for row in 0..rows {
                for block in 0..5 {
                    let i = cell_index(rows, 5, row, block);
                    assert!(!std::mem::replace(&mut seen[i], true));
                }
            }
        }
    }
}
