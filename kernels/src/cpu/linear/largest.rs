//! The row of a matrix whose result is the largest, for each row of a batch: what greedy decoding asks of an output head.
//!
//! With int8 weights the upper six bits say of nearly every row that it can't be the largest: `|y - narrow y| <= missed * |x|`
//! (Cauchy and Schwarz; see [`super::int8`]), and a row of the vocabulary is computed in full only where
//! `narrow y + missed * |x|` reaches the largest found before. So the answer is that of full results, to the bit and to the choice
//! among equals. Of 49,152 tokens of SmolLM2 some 20 are left (10 to 30 on average, by text).

use super::int8::Int8Tiles;
use super::run::{Input, Loop, Scratch};
use super::{Column, Part, ROWS, Stack, Tiles};
use crate::cpu::cells::{Cell, cell_index, cells_of};
use crate::cpu::isa::versions;

/// The largest result so far, and the row of the matrix that it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Largest {
    value: f32,
    /// All ones while there is none.
    pub(crate) row: u32,
}

impl Largest {
    const NONE: Self = Self { value: f32::NEG_INFINITY, row: u32::MAX };

    /// Of equal ones the first; what is not above minus infinity doesn't count, and all above the largest number are equal.
    fn take(&mut self, value: f32, row: u32) {
        let value = if value > f32::MAX { f32::MAX } else { value };
        if value > self.value || (value == self.value && row < self.row && value > f32::NEG_INFINITY) {
            *self = Self { value, row };
        }
    }

    /// Takes the results of a tile whose bits are set.
    fn take_column(&mut self, column: &Column, tile: usize, bits: u32) {
        for (r, &value) in column.iter().enumerate() {
            if bits >> r & 1 == 1 {
                self.take(value, (tile * ROWS + r) as u32);
            }
        }
    }
}

/// What is asked of a row of the batch.
pub(crate) struct Asked<'a> {
    /// Rows of the matrix that count, a bit each; all without.
    pub(crate) mask: Option<&'a [u32]>,
}

impl Asked<'_> {
    /// Bits of the rows of a tile that count, of `rows` in all.
    fn bits(&self, tile: usize, rows: usize) -> u32 {
        let all = (1u32 << ROWS.min(rows - tile * ROWS)) - 1;
        let word = |mask: &[u32]| mask.get(tile / 2).map_or(0, |word| word >> (tile % 2 * ROWS));
        self.mask.map_or(all, |mask| word(mask) & all)
    }
}

/// Between these lengths, results and bounds are far from what f32 can't hold, and from where it rounds to more than `2^-24`.
const LENGTHS: std::ops::Range<f64> = 1e-20..1e30;

/// The length of a batch row, or NaN where numbers are so large or small that bounds mean nothing.
fn length(cells: &[Cell]) -> f32 {
    let squares = |cell: &Cell| cell.q.iter().map(|&q| i32::from(q).pow(2)).sum::<i32>();
    let sum: f64 = cells.iter().map(|cell| f64::from(cell.scale).powi(2) * f64::from(squares(cell))).sum();
    let length = sum.sqrt() * 1.000_001;
    if LENGTHS.contains(&length) { length as f32 } else { f32::NAN }
}

/// Whether a result could be `largest`'s or more. Unordered numbers could.
#[inline(always)]
#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "a NaN has to be looked at")]
fn could_be(narrow: f32, missed: f32, length: f32, largest: &Largest) -> bool {
    !(missed.mul_add(length, narrow) < largest.value)
}

/// Lists the batch rows of which a result of the tile could be the largest.
#[inline(always)]
fn reaching_body(narrow: &[Column], missed: &Column, lengths: &[f32], largest: &[Largest], found: &mut Vec<usize>) {
    for (row, ((narrow, &length), largest)) in narrow.iter().zip(lengths).zip(largest).enumerate() {
        let mut any = false;
        for r in 0..ROWS {
            any |= could_be(narrow[r], missed[r], length, largest);
        }
        if any {
            found.push(row);
        }
    }
}

versions! {
    fn reaching = reaching_body(
        narrow: &[Column], missed: &Column, lengths: &[f32], largest: &[Largest], found: &mut Vec<usize>
    )
}

impl Loop<'_> {
    /// For each row of the batch, the row of `w` (one matrix that reads cells) with the largest result among those asked for.
    pub(crate) fn largest(&mut self, w: &Stack, x: Input<'_>, asked: &[Asked<'_>]) -> Vec<Largest> {
        let [part] = &w.parts[..] else { panic!("a head is one matrix") };
        assert!(x.rows == asked.len(), "{} rows, {} wishes", x.rows, asked.len());
        for scratch in &mut *self.scratch {
            scratch.largest.clear();
            scratch.largest.resize(x.rows, Largest::NONE);
        }
        match &part.tiles {
            Tiles::Int8(head) if head.narrows(self.isa, x.rows) => {
                self.largest_narrow(head, (part.rows, part.cols), x, asked);
            }
            _ => self.largest_whole(part, x, asked),
        }
        let mut all = vec![Largest::NONE; x.rows];
        for scratch in &*self.scratch {
            all.iter_mut().zip(&scratch.largest).for_each(|(all, some)| all.take(some.value, some.row));
        }
        all
    }

    fn largest_whole(&mut self, part: &Part, x: Input<'_>, asked: &[Asked<'_>]) {
        let isa = self.isa;
        self.split(part.tiles(), x.rows, &|scratch, tiles, rows| {
            let Scratch { panels, columns, largest, .. } = scratch;
            let (exact, largest) = (vec![0.0; rows.len()], &mut largest[rows.clone()]);
            let mut found = Vec::with_capacity(rows.len());
            part.each_tile(isa, tiles, (x, &rows), (panels, columns), |tile, columns| {
                reaching(isa, columns, &[0.0; ROWS], &exact, largest, &mut found);
                for i in found.drain(..) {
                    largest[i].take_column(&columns[i], tile, asked[rows.start + i].bits(tile, part.rows));
                }
            });
        });
    }

    fn largest_narrow(
        &mut self,
        head: &Int8Tiles,
        (outputs, inputs): (usize, usize),
        x: Input<'_>,
        asked: &[Asked<'_>],
    ) {
        let (isa, count) = (self.isa, cells_of(inputs));
        let apart: Vec<Cell> =
            (0..x.rows * count).map(|i| x.cells[cell_index(x.rows, count, i / count, i % count)]).collect();
        let lengths: Vec<f32> = apart.chunks_exact(count).map(length).collect();
        self.split(outputs.div_ceil(ROWS), x.rows, &|scratch, tiles, range| {
            let Scratch { panels, columns, largest, .. } = scratch;
            columns.resize(range.len(), [0.0; ROWS]);
            let cells = &x.cells[range.start * count..range.end * count];
            let (lengths, largest) = (&lengths[range.clone()], &mut largest[range.clone()]);
            let mut found = Vec::with_capacity(range.len());
            for tile in tiles {
                head.multiply_narrow(isa, tile, cells, &mut panels.integers, columns);
                reaching(isa, columns, head.missed(tile), lengths, largest, &mut found);
                for i in found.drain(..) {
                    let row = range.start + i;
                    let bits = asked[row].bits(tile, outputs);
                    let could = |r| could_be(columns[i][r], head.missed(tile)[r], lengths[i], &largest[i]);
                    if (0..ROWS).any(|r| bits >> r & 1 == 1 && could(r)) {
                        let mut column = [[0.0; ROWS]];
                        head.multiply(isa, tile, &apart[row * count..][..count], &mut column);
                        largest[i].take_column(&column[0], tile, bits);
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::cpu::cells::{CellRow, Order, fill};
    use crate::cpu::isa::Isa;
    use crate::cpu::linear::{Arithmetic, Packer, Part};
    use crate::cpu::memory::Arena;
    use crate::cpu::shared::Split;
    use crate::cpu::threads::Threads;
    use crate::tensor::{Matrix, Values};

    /// Numbers in -1..1 that look random.
    fn numbers(n: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    /// A head, and a batch as it reads it.
    struct Case {
        isa: Isa,
        stack: Stack,
        cells: Vec<Cell>,
        rows: usize,
    }

    impl Case {
        fn new(isa: Isa, outputs: usize, weights: &[f32], x: &[f32]) -> Self {
            let cols = weights.len() / outputs;
            let values =
                Values::F16(weights.iter().flat_map(|w| f16::from_f32(*w).to_le_bytes()).collect::<Vec<_>>().into());
            let matrix = Matrix { rows: outputs, cols, values };
            let (threads, arena) = (&mut Threads::new(1).unwrap(), &mut Arena::default());
            let part = Part::pack_head(&mut Packer { threads, arena, isa }, &matrix, Arithmetic::Fast).unwrap();
            let (rows, count) = (x.len() / cols, cells_of(cols));
            let mut cells = vec![Cell::default(); rows * count];
            let all = Split::new(&mut cells);
            for (row, x) in x.chunks_exact(cols).enumerate() {
                // SAFETY: there is one thread.
                unsafe { fill(isa, x, 0, CellRow { cells: &all, order: Order::of(isa), rows, count, row }) };
            }
            Self { isa, stack: Stack::new(vec![part]).unwrap(), cells, rows }
        }

        fn input(&self) -> Input<'_> {
            Input { rows: self.rows, floats: &[], cells: &self.cells }
        }

        /// All results, and the largest ones as found with `threads` threads.
        fn run(&self, threads: usize, asked: &[Asked<'_>]) -> (Vec<Vec<f32>>, Vec<u32>) {
            let mut threads = Threads::new(threads).unwrap();
            let mut scratch: Vec<Scratch> = (0..threads.count()).map(|_| Scratch::default()).collect();
            let mut looper = Loop { isa: self.isa, threads: &mut threads, scratch: &mut scratch };
            let found = looper.largest(&self.stack, self.input(), asked).iter().map(|l| l.row).collect();
            let mut all = vec![vec![0.0; self.stack.rows()]; self.rows];
            let to: Vec<Split<'_, f32>> = all.iter_mut().map(|row| Split::new(row)).collect();
            looper.multiply(&self.stack, self.input(), &|place, columns| {
                for (row, column) in (place.row..).zip(columns) {
                    // SAFETY: each (row, tile) is handed out once.
                    unsafe { to[row].part(place.at, place.width) }.copy_from_slice(&column[..place.width]);
                }
            });
            drop(to);
            (all, found)
        }
    }

    fn first_largest(row: &[f32], mask: Option<&[u32]>) -> u32 {
        let mut best = (f32::NEG_INFINITY, u32::MAX);
        for (i, &y) in row.iter().enumerate() {
            if mask.is_none_or(|m| m.get(i / 32).is_some_and(|w| w >> (i % 32) & 1 == 1)) && y > best.0 {
                best = (y, i as u32);
            }
        }
        best.1
    }

    #[test]
    fn the_first_largest_is_found_in_any_batch() {
        for (seed, (outputs, cols)) in [(16, 32), (40, 64), (300, 96), (1000, 576)].into_iter().enumerate() {
            let mut weights = numbers(outputs * cols, seed as u64);
            // Rows that are equal, opposite, nearly equal, zero, long and short.
            for row in 0..outputs {
                let from = row % 7 * cols;
                match row % 11 {
                    1 => weights.copy_within(from..from + cols, row * cols),
                    2 => (0..cols).for_each(|c| weights[row * cols + c] = -weights[from + c]),
                    3 => (0..cols).for_each(|c| weights[row * cols + c] = weights[from + c] * (1.0 + c as f32 * 1e-3)),
                    4 => weights[row * cols..][..cols].fill(0.0),
                    5 => weights[row * cols..][..cols].iter_mut().for_each(|w| *w *= 1000.0),
                    6 => weights[row * cols..][..cols].iter_mut().for_each(|w| *w *= 1e-3),
                    _ => {}
                }
            }
            let mut x = numbers(70 * cols, 9);
            // Batch rows along a row of the matrix, zero, and with one large number.
            x[..cols].copy_from_slice(&weights[..cols]);
            x[cols..2 * cols].fill(0.0);
            x[3 * cols] = 1e6;
            x[4 * cols..5 * cols].iter_mut().for_each(|v| *v *= 1e32);
            x[5 * cols..6 * cols].iter_mut().for_each(|v| *v *= 1e-35);
            let masks: Vec<Vec<u32>> = (0..70)
                .map(|row| {
                    numbers(outputs.div_ceil(32), row)
                        .iter()
                        .map(|v| if row % 5 == 4 { 0 } else { v.to_bits() << (row % 9) })
                        .collect()
                })
                .collect();
            for isa in Isa::available() {
                for rows in [1, 4, 5, 17, 70] {
                    let case = Case::new(isa, outputs, &weights, &x[..rows * cols]);
                    for masked in [false, true] {
                        let asked: Vec<_> = (0..rows)
                            .map(|row| Asked { mask: (masked && row % 3 > 0).then_some(&masks[row][..]) })
                            .collect();
                        for threads in [1, 3] {
                            let (all, found) = case.run(threads, &asked);
                            let expected: Vec<u32> =
                                all.iter().zip(&asked).map(|(row, a)| first_largest(row, a.mask)).collect();
                            assert_eq!(found, expected, "{isa:?}, {outputs} x {cols}, {rows} rows, masked {masked}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_six_bits_miss_is_within_its_bound() {
        let (outputs, cols) = (160, 576);
        let weights = numbers(outputs * cols, 5);
        let mut x = numbers(9 * cols, 6);
        x[..cols].iter_mut().for_each(|v| *v = v.signum());
        for isa in Isa::available() {
            let case = Case::new(isa, outputs, &weights, &x);
            let Tiles::Int8(head) = &case.stack.parts[0].tiles else { panic!("the head is not int8") };
            let (count, mut closest) = (cells_of(cols), 0f32);
            for tile in 0..outputs / ROWS {
                let (mut all, mut narrow) = ([[0.0; ROWS]; 9], [[0.0; ROWS]; 9]);
                head.multiply(isa, tile, &case.cells, &mut all);
                head.multiply_narrow(isa, tile, &case.cells, &mut Vec::new(), &mut narrow);
                for row in 0..9 {
                    let cells: Vec<Cell> = (0..count).map(|c| case.cells[cell_index(9, count, row, c)]).collect();
                    for r in 0..ROWS {
                        let share = (all[row][r] - narrow[row][r]).abs() / (head.missed(tile)[r] * length(&cells));
                        closest = closest.max(share);
                    }
                }
            }
            assert!(closest < 1.0, "{isa:?}: {closest} of the bound");
        }
    }
}
