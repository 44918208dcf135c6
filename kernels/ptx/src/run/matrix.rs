//! Matrix fragments of a warp: loads, stores and products. A lane is `4 g + q` throughout.

use super::block::Block;
use super::thread::Thread;
use crate::ir::{Element, Operand};
use crate::memory::{Space, number};
use crate::numbers;
use crate::types::sign_extend;

/// A fragment's registers of one lane.
type Words = Vec<u64>;

impl Block<'_> {
    fn words(&self, thread: &Thread, operand: &Operand) -> Words {
        match operand {
            Operand::Vector(all) => all.iter().map(|o| self.value(thread, o)).collect(),
            one => vec![self.value(thread, one)],
        }
    }

    fn write_word(thread: &mut Thread, operand: &Operand, index: usize, value: u64) {
        match operand {
            Operand::Vector(all) => Self::write(thread, &all[index], value),
            one => Self::write(thread, one, value),
        }
    }

    /// Shared addresses of the 8 rows of each matrix: lane `8 m + r` names row `r` of matrix `m`.
    fn rows(&self, count: usize, operand: &Operand, warp: &[Thread]) -> Result<Vec<u64>, String> {
        if warp.len() != 32 {
            return Err("matrices need a whole warp".into());
        }
        warp[..8 * count].iter().map(|t| self.address(t, operand)).collect()
    }

    /// `ldmatrix`: a lane gets numbers `2q` and `2q + 1` of row `g`; transposed, rows `2q` and `2q + 1` of column `g`.
    pub(super) fn load_matrices(
        &mut self,
        (count, transposed): (usize, bool),
        operands: &[Operand],
        warp: &mut [Thread],
    ) -> Result<(), String> {
        let rows = self.rows(count, &operands[1], warp)?;
        for matrix in 0..count {
            let mut cells = [[0u64; 8]; 8];
            for (r, row) in cells.iter_mut().enumerate() {
                let bytes = self.read(&warp[0], (Space::Shared, rows[8 * matrix + r]), 16)?;
                row.iter_mut().zip(bytes.chunks_exact(2)).for_each(|(c, b)| *c = number(b));
            }
            for (lane, thread) in warp.iter_mut().enumerate() {
                let (g, q) = (lane / 4, lane % 4);
                let cell = |i: usize| if transposed { cells[2 * q + i][g] } else { cells[g][2 * q + i] };
                Self::write_word(thread, &operands[0], matrix, cell(0) | cell(1) << 16);
            }
        }
        Ok(())
    }

    /// `stmatrix`, the other way round.
    pub(super) fn store_matrices(
        &mut self,
        (count, transposed): (usize, bool),
        operands: &[Operand],
        warp: &mut [Thread],
    ) -> Result<(), String> {
        let rows = self.rows(count, &operands[0], warp)?;
        for matrix in 0..count {
            let mut cells = [[0u16; 8]; 8];
            for (lane, thread) in warp.iter().enumerate() {
                let (g, q) = (lane / 4, lane % 4);
                let word = self.words(thread, &operands[1])[matrix];
                for i in 0..2 {
                    let cell = (word >> (16 * i)) as u16;
                    if transposed { cells[2 * q + i][g] = cell } else { cells[g][2 * q + i] = cell }
                }
            }
            for (r, row) in cells.iter().enumerate() {
                let bytes: Vec<u8> = row.iter().flat_map(|c| c.to_le_bytes()).collect();
                self.place(&mut warp[0], (Space::Shared, rows[8 * matrix + r]), 16)?.copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// `mma.sync.m16n8k(k)`: `d = a b + c`. With scales each 16 of k of a row of `a` and of a column of `b` have one.
    pub(super) fn multiply(
        &mut self,
        (k, element, scaled): (usize, Element, bool),
        operands: &[Operand],
        warp: &mut [Thread],
    ) -> Result<(), String> {
        if warp.len() != 32 {
            return Err("matrix products need a whole warp".into());
        }
        let fragment = |n: usize| -> Vec<Words> { warp.iter().map(|t| self.words(t, &operands[n])).collect() };
        let (mut a, mut b) = (left(&fragment(1), k, element), right(&fragment(2), k, element));
        if scaled {
            let selected = |n: usize| -> Result<usize, String> {
                match self.words(&warp[0], &operands[n])[..] {
                    [0, thread] => Ok(thread as usize),
                    ref other => Err(format!("byte selector {other:?}; 0 is interpreted")),
                }
            };
            let (at_a, at_b) = (selected(5)?, selected(7)?);
            if at_a > 1 || at_b > 3 {
                return Err(format!("thread selectors {at_a} and {at_b}; 0 to 1 and 0 to 3 exist"));
            }
            let (scale_a, scale_b) = (fragment(4), fragment(6));
            let scale = |word: u64, k: usize| numbers::e4m3((word >> (8 * (k / 16))) as u8 & 0x7f);
            for (m, row) in a.iter_mut().enumerate() {
                let word = scale_a[m % 8 * 4 + 2 * at_a + m / 8][0];
                row.iter_mut().enumerate().for_each(|(k, x)| *x *= scale(word, k));
            }
            for (n, column) in b.iter_mut().enumerate() {
                let word = scale_b[n * 4 + at_b][0];
                column.iter_mut().enumerate().for_each(|(k, x)| *x *= scale(word, k));
            }
        }
        let sums = fragment(3);
        for (lane, thread) in warp.iter_mut().enumerate() {
            for (i, &sum) in sums[lane].iter().enumerate() {
                let (m, n) = (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
                let product: f64 = a[m].iter().zip(&b[n]).map(|(x, y)| x * y).sum();
                Self::write_word(thread, &operands[0], i, accumulate(element, sum, product));
            }
        }
        Ok(())
    }
}

fn accumulate(element: Element, sum: u64, product: f64) -> u64 {
    if element == Element::S8 {
        let sum = sign_extend(sum & 0xffff_ffff, 32) + product as i64;
        return sum as u64 & 0xffff_ffff;
    }
    u64::from(((f64::from(f32::from_bits(sum as u32)) + product) as f32).to_bits())
}

fn decode(element: Element, word: u64, index: usize) -> f64 {
    let bits = element.bits();
    let code = word >> (bits * index) & ((1 << bits) - 1);
    match element {
        Element::Bf16 => half::bf16::from_bits(code as u16).to_f64(),
        Element::F16 => half::f16::from_bits(code as u16).to_f64(),
        Element::E4m3 => numbers::e4m3(code as u8),
        Element::E5m2 => numbers::e5m2(code as u8),
        Element::E2m1 => numbers::e2m1(code as u8),
        Element::S8 => f64::from(code as u8 as i8),
    }
}

/// Rows of `a`: register `r` of a lane holds row `g + 8 (r % 2)`, k from `per q`, in the second half of k for `r` of 2 and 3.
fn left(words: &[Words], k: usize, element: Element) -> Vec<Vec<f64>> {
    let per = 32 / element.bits();
    let mut rows = vec![vec![0.0; k]; 16];
    for (lane, words) in words.iter().enumerate() {
        let (g, q) = (lane / 4, lane % 4);
        for (r, &word) in words.iter().enumerate() {
            for e in 0..per {
                rows[g + 8 * (r % 2)][per * q + e + 4 * per * (r / 2)] = decode(element, word, e);
            }
        }
    }
    rows
}

/// Columns of `b`: register `r` of a lane holds column `g`, k from `per q`, in the second half of k for `r` of 1.
fn right(words: &[Words], k: usize, element: Element) -> Vec<Vec<f64>> {
    let per = 32 / element.bits();
    let mut columns = vec![vec![0.0; k]; 8];
    for (lane, words) in words.iter().enumerate() {
        let (g, q) = (lane / 4, lane % 4);
        for (r, &word) in words.iter().enumerate() {
            for e in 0..per {
                columns[g][per * q + e + 4 * per * r] = decode(element, word, e);
            }
        }
    }
    columns
}
