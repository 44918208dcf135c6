//! Activations as int8: 32 numbers share a scale. This is what NVFP4 and int8 weights are multiplied with in fast mode.
//!
//! `scale = amax / 127`, `q = round_ties_even(x * (127 / amax))`; all zero when there is nothing above 1e-36. Cells of up to four rows are
//! interleaved, so that a kernel that works on four tokens reads one stream.

use super::isa::{Isa, Level, versions};
use super::math::{LANES, max};
use super::shared::Split;

/// Numbers in a cell. The last cell of a row may lack its second half, which is zero then.
pub(crate) const CELL: usize = 32;
/// Numbers in half a cell: a block of NVFP4, whose scale is its own.
pub(crate) const HALF: usize = CELL / 2;
/// What a number must exceed to count: `127 / amax` stays finite.
pub(crate) const SMALLEST: f32 = 1e-36;
/// Rows that are interleaved: with sixteen registers, one load of weights serves four (measured: 123 billion products a
/// second; 114 with three).
pub(crate) const TILE: usize = 4;

/// 32 quantized numbers and what kernels need beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(16))]
pub(crate) struct Cell {
    /// Quantized numbers, as [`Order`] says.
    pub(crate) q: [i8; CELL],
    /// Takes back what makes weights unsigned, for either half, as [`Order::back`] says.
    pub(crate) back: [i32; 2],
    /// `-128 * sum(q)`: takes back the +128 that makes an int8 weight unsigned.
    pub(crate) minus_128: i32,
    /// Real number per quantized unit.
    pub(crate) scale: f32,
}

/// Cells of a row of `cols` numbers.
pub(crate) fn cells_of(cols: usize) -> usize {
    cols.div_ceil(CELL)
}

/// Which column is where in a cell, and likewise in the weights that meet it. Kernels multiply four bytes a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Four columns of the first half, four of the second: for instructions that add four products.
    Quads,
    /// Two columns of the first half, two of the second: a lane's 16-bit sums of two products are those of the halves.
    Halves,
}

impl Order {
    /// What the kernels of an instruction set read.
    pub(crate) fn of(isa: Isa) -> Self {
        match isa.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Self::Quads,
            _ => Self::Halves,
        }
    }

    /// The column that byte `place` of a cell holds.
    #[inline(always)]
    pub(crate) fn column(self, place: usize) -> usize {
        match self {
            Self::Quads => place / 8 * 4 + place % 4 + place / 4 % 2 * HALF,
            Self::Halves => place / 4 * 2 + place % 2 + place % 4 / 2 * HALF,
        }
    }

    /// What a kernel begins its sums with, given those of `q` in either half. Quads: `-12 * sum`, against the +12 that makes
    /// twice an E2M1 number unsigned. Halves: the same in 16 bits each; then `-32 * sum` modulo `2^16`, against the +32 that makes the
    /// upper six bits of an int8 weight unsigned.
    #[inline(always)]
    pub(crate) fn back(self, sums: [i16; 2]) -> [i32; 2] {
        let times = |by: i16| sums.map(|sum| sum.wrapping_mul(by));
        match self {
            Self::Quads => times(-12).map(i32::from),
            Self::Halves => [times(-12), times(-32)].map(|[a, b]| i32::from(a as u16) | i32::from(b) << 16),
        }
    }
}

/// Index of a cell: tile by tile of four rows (the last may be narrower), in a tile cell by cell, in a cell row by row.
#[inline(always)]
pub(crate) fn cell_index(rows: usize, cells: usize, row: usize, cell: usize) -> usize {
    let first = row / TILE * TILE;
    let wide = TILE.min(rows - first);
    first * cells + cell * wide + (row - first)
}

#[inline(always)]
fn quantize(x: &[f32; CELL], order: Order) -> Cell {
    let mut magnitude = [0f32; LANES];
    for i in 0..LANES {
        let (a, b) = (x[i].abs(), x[i + LANES].abs());
        magnitude[i] = if a > b { a } else { b };
    }
    let amax = max(magnitude);
    let (scale, inverse) = if amax > SMALLEST { (amax / 127.0, 127.0 / amax) } else { (0.0, 0.0) };
    let mut q = [0i8; CELL];
    for i in 0..CELL {
        // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even; |x * inverse| is at most 127.
        q[i] = (x[i] * inverse + 12_582_912.0).to_bits() as u8 as i8;
    }
    let mut cell = Cell { scale, ..Cell::default() };
    let mut sums = [0i16; 2];
    for place in 0..CELL {
        let v = q[order.column(place)];
        cell.q[place] = v;
        sums[order.column(place) / HALF] += i16::from(v);
    }
    cell.back = order.back(sums);
    cell.minus_128 = -128 * (i32::from(sums[0]) + i32::from(sums[1]));
    cell
}

/// Where a row's cells go.
#[derive(Clone, Copy)]
pub(crate) struct CellRow<'a> {
    pub(crate) cells: &'a Split<'a, Cell>,
    pub(crate) order: Order,
    /// Rows of the batch.
    pub(crate) rows: usize,
    /// Cells of a row.
    pub(crate) count: usize,
    pub(crate) row: usize,
}

impl CellRow<'_> {
    /// Stores a cell.
    ///
    /// # Safety
    /// No other thread may write this cell of the row.
    #[inline(always)]
    unsafe fn put(&self, index: usize, cell: Cell) {
        // SAFETY: one cell, which is the caller's alone.
        unsafe { self.cells.part(cell_index(self.rows, self.count, self.row, index), 1)[0] = cell };
    }
}

#[inline(always)]
fn fill_body(x: &[f32], first: usize, to: CellRow<'_>) {
    for_cells(x, first, to, |numbers| quantize(numbers, to.order));
}

/// Cells of consecutive numbers; zeros fill the last one up.
#[inline(always)]
pub(crate) fn for_cells(x: &[f32], first: usize, to: CellRow<'_>, make: impl Fn(&[f32; CELL]) -> Cell) {
    let (whole, rest) = x.as_chunks::<CELL>();
    for (i, numbers) in whole.iter().enumerate() {
        // SAFETY: `fill`'s caller owns these cells of the row.
        unsafe { to.put(first + i, make(numbers)) };
    }
    if !rest.is_empty() {
        let mut numbers = [0f32; CELL];
        numbers[..rest.len()].copy_from_slice(rest);
        // SAFETY: as above.
        unsafe { to.put(first + whole.len(), make(&numbers)) };
    }
}

versions! {
    fn fill_portable = fill_body(x: &[f32], first: usize, to: CellRow<'_>)
}

/// Quantizes consecutive cells of a row.
///
/// # Safety
/// No other thread may write these cells.
pub(crate) unsafe fn fill(isa: Isa, x: &[f32], first: usize, to: CellRow<'_>) {
    match isa.0 {
        // SAFETY: an `Isa` of this level exists only where the processor has these features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { super::x86::avx2_fill(x, first, to) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { super::x86::avx512_fill(x, first, to) },
        Level::Portable => fill_portable(isa, x, first, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_nearest_even_and_sums() {
        let x: [f32; CELL] = std::array::from_fn(|i| if i == 0 { -127.0 } else { i as f32 + 0.5 });
        let q: [i8; CELL] =
            std::array::from_fn(|i| if i == 0 { -127 } else { (i as f32 + 0.5).round_ties_even() as i8 });
        let sums = [0, 1].map(|half| q[half * HALF..][..HALF].iter().map(|&v| i16::from(v)).sum::<i16>());
        for order in [Order::Quads, Order::Halves] {
            let cell = quantize(&x, order);
            assert_eq!(cell.q, std::array::from_fn(|place| q[order.column(place)]));
            let back = match order {
                Order::Quads => sums.map(|s| -12 * i32::from(s)),
                // Two 16-bit numbers each, the first half's in the lower bits.
                Order::Halves => [-12, -32].map(|by| {
                    let [a, b] = sums.map(|s| by * i32::from(s));
                    a & 0xffff | b << 16
                }),
            };
            assert_eq!((cell.back, cell.scale), (back, 1.0));
            assert_eq!(cell.minus_128, -128 * i32::from(sums[0] + sums[1]));
            assert_eq!(quantize(&[0.0; CELL], order), Cell::default());
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn vectors_make_the_same_cells() {
        let has = |level| Isa::available().iter().any(|isa| isa.0 == level);
        let mut state = 1u32;
        for round in 0..20_000 {
            let x: [f32; CELL] = std::array::from_fn(|i| {
                state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                let v = (state >> 8) as f32 / 8192.0 - 1024.0;
                // Halves of units, zeros and one large number are where rounding could differ.
                match round % 4 {
                    0 => v,
                    1 => {
                        if i == 5 {
                            -127.0
                        } else {
                            (v / 16.0).round() / 2.0
                        }
                    }
                    2 => {
                        if i == 9 {
                            1e30
                        } else {
                            v * 1e-30
                        }
                    }
                    _ => {
                        if round % 8 == 3 {
                            0.0
                        } else {
                            v.round() * f32::MIN_POSITIVE
                        }
                    }
                }
            });
            if has(Level::Avx2) {
                // SAFETY: the processor has AVX2.
                assert_eq!(unsafe { super::super::x86::avx2_quantize(&x) }, quantize(&x, Order::Halves), "{x:?}");
            }
            if has(Level::Avx512) {
                // SAFETY: the processor has AVX-512.
                assert_eq!(unsafe { super::super::x86::avx512_quantize(&x) }, quantize(&x, Order::Quads), "{x:?}");
            }
        }
    }

    #[test]
    fn an_order_has_every_column_and_halves_apart() {
        for order in [Order::Quads, Order::Halves] {
            let mut columns: Vec<usize> = (0..CELL).map(|place| order.column(place)).collect();
            columns.sort_unstable();
            assert!(columns.into_iter().eq(0..CELL));
        }
        assert!((0..CELL).all(|place| Order::Halves.column(place) / HALF == place % 4 / 2));
    }

    #[test]
    fn cells_of_a_batch_have_distinct_places() {
        for rows in 1..20 {
            let mut seen = vec![false; rows * 5];
            for row in 0..rows {
                for cell in 0..5 {
                    let i = cell_index(rows, 5, row, cell);
                    assert!(!std::mem::replace(&mut seen[i], true));
                }
            }
        }
    }
}
