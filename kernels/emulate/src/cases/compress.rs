//! The compressor: finished rows against double precision, and the same bits whole, in chunks and token by token.

use sluicegate_kernels::cuda::call::{Address, Floats, RowCount};
use sluicegate_kernels::cuda::calls::{self, CompressAt, ExtentsAt, RowsPlace};
use sluicegate_kernels::rows::{Rounding, RowStore};

use super::Case;
use super::rows::row_count;
use super::sparse::{BF16, F32, code, normalize, rotate, wide};
use crate::numbers::{Dice, compare};
use crate::program::Program;

const BLOCK: usize = 8;
const RATIO: usize = 4;
const WIDTH: usize = 32;
const TOKENS: usize = 21;
const FREQUENCIES: usize = 4;
const BLOCKS: usize = TOKENS.div_ceil(BLOCK);

pub(super) fn cases() -> Vec<Case> {
    let tail = 2 * FREQUENCIES;
    vec![
        case(false, &Kept { store: F32, rounding: Rounding::Exact, slots: 1 }),
        case(true, &Kept { store: BF16, rounding: Rounding::Exact, slots: 3 }),
        case(false, &Kept { store: RowStore::Fp8 { tail }, rounding: Rounding::Fp8 { tail }, slots: 1 }),
        case(true, &Kept { store: RowStore::Fp4, rounding: Rounding::HadamardFp4, slots: 2 }),
    ]
}

/// How rows and states are kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    store: RowStore,
    rounding: Rounding,
    slots: usize,
}

impl Kept {
    /// Bytes of the pool of rows.
    fn pool_bytes(&self) -> usize {
        BLOCKS * (BLOCK / RATIO) * self.store.row_bytes(WIDTH)
    }

    /// What a stored row should be close to, and how close.
    fn expected(&self, mut row: Vec<f64>) -> (Vec<f64>, f64) {
        if matches!(self.rounding, Rounding::Hadamard | Rounding::HadamardFp4) {
            let mut narrow: Vec<f32> = row.iter().map(|&v| v as f32).collect();
            Rounding::Hadamard.apply(&mut narrow);
            row = wide(narrow);
        }
        let most = row.iter().fold(0f64, |m, v| m.max(v.abs()));
        let step = match self.store {
            RowStore::Fp4 => 0.2,
            RowStore::Fp8 { .. } | RowStore::Fp8Row => 0.04,
            RowStore::Plain(_) => 0.0045,
        };
        (row, most * step)
    }
}

struct Scene {
    parts: usize,
    values: Vec<f32>,
    scores: Vec<f32>,
    place: Vec<f32>,
    gain: Vec<f32>,
    /// Of every group: cosines, then sines.
    angles: Vec<f32>,
}

impl Scene {
    fn new(overlap: bool) -> Self {
        let parts = if overlap { 2 } else { 1 };
        let mut dice = Dice::new(70 + parts as u64);
        let scores = dice.floats(TOKENS * WIDTH * parts).into_iter().map(|v| v * 3.0).collect();
        Self {
            parts,
            values: dice.floats(TOKENS * WIDTH * parts),
            scores,
            place: dice.floats(RATIO * WIDTH * parts),
            gain: dice.floats(WIDTH),
            angles: dice.floats(TOKENS / RATIO * 2 * FREQUENCIES),
        }
    }

    fn group(&self, group: usize) -> Vec<f64> {
        let stride = WIDTH * self.parts;
        let channel = |i: usize| {
            let (mut sum, mut total) = (0.0, 0.0);
            let mut take = |token: usize, column: usize| {
                let score = self.scores[token * stride + column] + self.place[token % RATIO * stride + column];
                let weight = f64::from(score).exp();
                sum += weight;
                total += weight * f64::from(self.values[token * stride + column]);
            };
            if self.parts == 2 && group > 0 {
                ((group - 1) * RATIO..group * RATIO).for_each(|t| take(t, i));
            }
            (group * RATIO..(group + 1) * RATIO).for_each(|t| take(t, (self.parts - 1) * WIDTH + i));
            total / sum
        };
        let mut row: Vec<f64> = (0..WIDTH).map(channel).collect();
        normalize(&mut row, Some(&self.gain), 1e-6);
        let angles = &self.angles[group * 2 * FREQUENCIES..];
        rotate(&mut row, &angles[..FREQUENCIES], &angles[FREQUENCIES..2 * FREQUENCIES], 1.0);
        row
    }
}

/// Runs one sequence cut into these chunks; returns pool and states.
fn run(p: &mut Program, scene: &Scene, kept: &Kept, chunks: &[usize]) -> [Address; 2] {
    let parts = scene.parts;
    let pool = p.room::<u8>(kept.pool_bytes());
    let states = p.room::<f32>(BLOCKS * kept.slots * 3 * WIDTH * parts);
    let begun = p.room::<f32>(3 * WIDTH * parts);
    let floats = |at: Address| Floats { at, stride: (WIDTH * parts) as u32, width: (WIDTH * parts) as u32 };
    let (values, scores) = (p.put(&scene.values), p.put(&scene.scores));
    let (place, gain, angles) = (p.put(&scene.place), p.put(&scene.gain), p.put(&scene.angles));
    let block_tables = p.put(&[2u32, 0, 1]);
    let mut start = 0;
    for &rows in chunks {
        let list = p.put(&[0, rows as u32, start as u32, 0]);
        let count: RowCount = row_count(p, 1, 1);
        let row = |at: Address| floats(at.plus(start * WIDTH * parts * 4));
        let first_group = p.put(&[0u32]);
        let args = CompressAt {
            values: row(values),
            scores: row(scores),
            place,
            width: WIDTH as u32,
            overlap: parts == 2,
            gain,
            eps: 1e-6,
            angles: angles.plus(start / RATIO * 2 * FREQUENCIES * 4),
            frequencies: FREQUENCIES as u32,
            first_group,
            states,
            slots: kept.slots as u32,
            begun,
            rounding: kept.rounding,
            to: RowsPlace { pool, store: code(kept.store), ratio: RATIO as u32, block_tokens: BLOCK as u32 },
        };
        calls::compress(&args, ExtentsAt { list, count, block_tables }).into_iter().for_each(|c| p.call(c));
        start += rows;
    }
    [pool, states]
}

fn case(overlap: bool, kept: &Kept) -> Case {
    let (scene, kept) = (Scene::new(overlap), *kept);
    let mut p = Program::default();
    let whole = run(&mut p, &scene, &kept, &[TOKENS]);
    let cut = run(&mut p, &scene, &kept, &[3, 6, 1, 11]);
    let single = run(&mut p, &scene, &kept, &[1; TOKENS]);
    Case::new(format!("compress, overlap {overlap}, {kept:?}"), p, move |p| {
        let pool = &p.get::<u8>(whole[0])[..kept.pool_bytes()];
        let bytes = kept.store.row_bytes(WIDTH);
        for group in 0..TOKENS / RATIO {
            let block = [2, 0, 1][group * RATIO / BLOCK];
            let at = (block * (BLOCK / RATIO) + group % (BLOCK / RATIO)) * bytes;
            let mut found = vec![0f32; WIDTH];
            kept.store.read(&pool[at..at + bytes], &mut found);
            let (expected, step) = kept.expected(scene.group(group));
            compare(&format!("group {group}"), &wide(found), &expected, 1e-5, step)?;
        }
        for other in [cut, single] {
            if &p.get::<u8>(other[0])[..kept.pool_bytes()] != pool {
                return Err("rows depend on how the sequence was cut".into());
            }
            let last = 1; // the block of the newest token, with the states behind its last `slots` tokens
            let newest = |states: Address| {
                let n = kept.slots * 3 * WIDTH * scene.parts;
                p.get::<u32>(states)[last * n..][..n].to_vec()
            };
            if newest(other[1]) != newest(whole[1]) {
                return Err("the states depend on how the sequence was cut".into());
            }
        }
        Ok(())
    })
}
