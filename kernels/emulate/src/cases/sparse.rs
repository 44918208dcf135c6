//! Rows of compressed sparse attention: rotated heads against double precision, roundings and formats bit by bit against the
//! definitions in Rust.

use sluicegate_kernels::cuda::call::{Address, Floats};
use sluicegate_kernels::cuda::calls::{self, RingPlace, RopeRows, StepAt, StoreCode};
use sluicegate_kernels::ops::KvStore;
use sluicegate_kernels::rows::{Rounding, RowStore};

use super::Case;
use super::rope::Steps;
use super::rows::row_count;
use crate::numbers::{Dice, compare};
use crate::program::Program;

pub(super) const BLOCK: usize = 16;
pub(super) const DIM: usize = 32;
pub(super) const FREQUENCIES: usize = 8;
/// Tokens that are seen uncompressed, and rows that a block keeps of them.
pub(super) const WINDOW: usize = 12;

pub(super) const F32: RowStore = RowStore::Plain(KvStore::F32);
pub(super) const BF16: RowStore = RowStore::Plain(KvStore::Bf16);
pub(super) const FP8: RowStore = RowStore::Fp8 { tail: 2 * FREQUENCIES };
const STORES: [RowStore; 5] = [F32, BF16, FP8, RowStore::Fp8Row, RowStore::Fp4];

pub(super) fn rows() -> Vec<Case> {
    let mut cases = vec![tails(None), tails(Some(1e-6))];
    let roundings = [Rounding::Fp8 { tail: 8 }, Rounding::Hadamard, Rounding::HadamardFp4];
    cases.extend(roundings.map(|rounding| rounded(rounding, 4, 128)));
    cases.extend(STORES.map(|store| finish(Rounding::Exact, store)));
    cases.push(finish(Rounding::Fp8 { tail: 2 * FREQUENCIES }, FP8));
    cases.extend(STORES.map(keep));
    cases.extend(super::compress::cases());
    cases
}

/// Three sequences in scattered blocks: rows at 36 and 37, at 3, and at 63.
pub(super) fn steps() -> Steps {
    Steps {
        positions: vec![36, 37, 3, 63],
        starts: vec![36, 36, 3, 63],
        ends: vec![38, 38, 4, 64],
        tables: vec![0, 0, 3, 4],
        block_tables: vec![4, 1, 7, 2, 0, 6, 5, 3],
        block_tokens: BLOCK,
        blocks: 8,
    }
}

pub(super) fn put_step(p: &mut Program, steps: &Steps, spare: usize) -> StepAt {
    let count = row_count(p, steps.positions.len(), spare);
    steps.put(p, count)
}

/// The code of a format that has kernels.
pub(super) fn code(store: RowStore) -> StoreCode {
    StoreCode::new(store).expect("the format has kernels")
}

pub(super) fn wide(values: Vec<f32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

/// Rotates the end of a row, neighbours together.
pub(super) fn rotate(row: &mut [f64], cosines: &[f32], sines: &[f32], turn: f64) {
    let from = row.len() - 2 * cosines.len();
    for (pair, (&c, &s)) in row[from..].chunks_exact_mut(2).zip(cosines.iter().zip(sines)) {
        let (c, s) = (f64::from(c), f64::from(s) * turn);
        (pair[0], pair[1]) = (pair[0] * c - pair[1] * s, pair[1] * c + pair[0] * s);
    }
}

pub(super) fn normalize(row: &mut [f64], gain: Option<&[f32]>, eps: f32) {
    let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64 + f64::from(eps)).sqrt();
    for (i, v) in row.iter_mut().enumerate() {
        *v *= scale * gain.map_or(1.0, |g| f64::from(g[i]));
    }
}

pub(super) struct Angles {
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Angles {
    pub(super) fn new(rows: usize, dice: &mut Dice) -> Self {
        Self { cosines: dice.floats(rows * FREQUENCIES), sines: dice.floats(rows * FREQUENCIES) }
    }

    /// No rotation.
    fn still(rows: usize) -> Self {
        Self { cosines: vec![1.0; rows * FREQUENCIES], sines: vec![0.0; rows * FREQUENCIES] }
    }

    pub(super) fn put(&self, p: &mut Program) -> RopeRows {
        let (cosines, sines) = (p.put(&self.cosines), p.put(&self.sines));
        RopeRows { cosines, sines, frequencies: FREQUENCIES as u32, interleaved: true }
    }

    pub(super) fn row(&self, row: usize) -> (&[f32], &[f32]) {
        (&self.cosines[row * FREQUENCIES..][..FREQUENCIES], &self.sines[row * FREQUENCIES..][..FREQUENCIES])
    }
}

fn heads_at(at: Address, heads: usize, dim: usize) -> Floats {
    Floats { at, stride: (heads * dim) as u32, width: (heads * dim) as u32 }
}

fn tails(eps: Option<f32>) -> Case {
    let (rows, heads) = (3, 6);
    let mut p = Program::default();
    let mut dice = Dice::new(61);
    let x = dice.floats(rows * heads * DIM);
    let angles = Angles::new(rows, &mut dice);
    let mut expected = wide(x.clone());
    for (i, head) in expected.chunks_exact_mut(DIM).enumerate() {
        if let Some(eps) = eps {
            normalize(head, None, eps);
        }
        let (c, s) = angles.row(i / heads);
        rotate(head, c, s, 1.0);
    }
    let at = heads_at(p.put(&x), heads, DIM);
    let (rope, count) = (angles.put(&mut p), row_count(&mut p, rows, 1));
    p.call(calls::rotate_tails(at, heads as u32, eps, rope, Rounding::Exact, count));
    Case::new(format!("rotate_tails, norm {eps:?}"), p, move |p| {
        compare("head", &wide(p.get(at.at)), &expected, 1e-5, 1e-6)
    })
}

/// Numbers of very different sizes, and some groups of zeros.
fn rugged(count: usize, dice: &mut Dice) -> Vec<f32> {
    let sizes = [1.0, 1e-6, 30.0, 0.0, 1e-3, 700.0];
    let scale = |i: usize| sizes[i / 32 % sizes.len()];
    dice.floats(count).into_iter().enumerate().map(|(i, v)| v * scale(i)).collect()
}

fn same_bits(what: &str, found: &[f32], expected: &[f32]) -> Result<(), String> {
    // Zeros of either sign are one number.
    let wrong = |(f, e): (&f32, &f32)| f.to_bits() != e.to_bits() && !(*f == 0.0 && *e == 0.0);
    found
        .iter()
        .zip(expected)
        .position(wrong)
        .map_or(Ok(()), |i| Err(format!("{what}[{i}] is {:e} instead of {:e}", found[i], expected[i])))
}

/// Heads that are neither normed nor rotated: what is left is the rounding.
fn rounded(rounding: Rounding, heads: usize, dim: usize) -> Case {
    let rows = 3;
    let mut p = Program::default();
    let x = rugged(rows * heads * dim, &mut Dice::new(64));
    let mut expected = x.clone();
    expected.chunks_exact_mut(dim).for_each(|head| rounding.apply(head));
    let at = heads_at(p.put(&x), heads, dim);
    let (rope, count) = (Angles::still(rows).put(&mut p), row_count(&mut p, rows, 1));
    p.call(calls::rotate_tails(at, heads as u32, None, rope, rounding, count));
    Case::new(format!("rotate_tails, rounding {rounding:?}"), p, move |p| {
        same_bits("head", &p.get::<f32>(at.at), &expected)
    })
}

fn finish(rounding: Rounding, store: RowStore) -> Case {
    let (width, rows) = (80, 4);
    let mut p = Program::default();
    let mut dice = Dice::new(62);
    let (x, gain) = (dice.floats(rows * width), dice.floats(width));
    let angles = Angles::new(rows, &mut dice);
    let mut expected = wide(x.clone());
    for (i, row) in expected.chunks_exact_mut(width).enumerate() {
        normalize(row, Some(&gain), 1e-6);
        let (c, s) = angles.row(i);
        rotate(row, c, s, 1.0);
    }
    let from = Floats { at: p.put(&x), stride: width as u32, width: width as u32 };
    let (gain, rope) = (p.put(&gain), angles.put(&mut p));
    let count = row_count(&mut p, rows, 1);
    p.call(calls::finish_rows(from, (gain, 1e-6), rope, (rounding, code(store)), count));
    Case::new(format!("finish_rows {rounding:?} {store:?}"), p, move |p| {
        let found = p.get::<f32>(from.at);
        for (found, expected) in found.chunks_exact(width).zip(expected.chunks_exact(width)) {
            // Half a step of the largest number, and what storing the row again must not change.
            let (relative, absolute) = match store {
                RowStore::Plain(KvStore::F32) => (1e-5, 1e-6),
                RowStore::Plain(_) => (1.0 / 250.0, 1e-6),
                RowStore::Fp4 => (0.25, 0.3),
                RowStore::Fp8 { .. } | RowStore::Fp8Row => (1.0 / 15.0, 0.01),
            };
            compare("row", &wide(found.to_vec()), expected, relative, absolute)?;
            let mut again = found.to_vec();
            store.round(&mut again);
            same_bits("rounded once more", found, &again)?;
        }
        Ok(())
    })
}

/// Rows of given numbers, whose stored bytes are known exactly.
fn keep(store: RowStore) -> Case {
    let (width, ring, steps) = (96, WINDOW, keeping());
    let rows = steps.positions.len();
    let mut p = Program::default();
    let x = rugged(rows * width, &mut Dice::new(65));
    let bytes = store.row_bytes(width);
    let mut expected = vec![0xffu8; steps.blocks * ring * bytes];
    for row in 0..rows {
        let position = steps.positions[row] as usize;
        if last_of_block(position, steps.ends[row] as usize) - position < ring {
            let (block, slot) = steps.place(row, position);
            let at = (block * ring + slot % ring) * bytes;
            store.write(&x[row * width..][..width], &mut expected[at..at + bytes]);
        }
    }
    let pool = p.bytes(vec![0xff; expected.len()]);
    let to = RingPlace { pool, store: code(store), ring: ring as u32, block_tokens: BLOCK as u32 };
    let from = Floats { at: p.put(&x), stride: width as u32, width: width as u32 };
    let step = put_step(&mut p, &steps, 2);
    p.call(calls::keep_rows(from, to, step));
    Case::new(format!("keep_rows {store:?}"), p, move |p| {
        let found = p.get::<u8>(pool);
        match found.iter().zip(&expected).position(|(f, e)| f != e) {
            None => Ok(()),
            Some(i) => Err(format!("byte {} of row {} differs", i % bytes, i / bytes)),
        }
    })
}

/// A sequence whose step covers one block and parts of two more, so that a ring turns over, and one of a single row.
fn keeping() -> Steps {
    let positions: Vec<u32> = (13..37).chain([3]).collect();
    let last = positions.len() - 1;
    let by_row = |long: u32, short: u32| (0..=last).map(|i| if i < last { long } else { short }).collect();
    Steps {
        starts: by_row(13, 3),
        ends: by_row(37, 4),
        tables: by_row(0, 3),
        positions,
        block_tables: vec![4, 1, 3, 2],
        block_tokens: BLOCK,
        blocks: 5,
    }
}

/// The last position of the block of `position`, or the one in front of `end` if that is in the same block.
pub(super) fn last_of_block(position: usize, end: usize) -> usize {
    (position / BLOCK * BLOCK + BLOCK).min(end) - 1
}
