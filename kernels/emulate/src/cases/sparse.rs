//! Compressed sparse attention against double precision, and the compressor in pieces.

use sluicegate_kernels::cuda::call::{Address, Floats};
use sluicegate_kernels::cuda::calls::{self, PicksAt, RopeRows, RowsPlace, ScoresAt, SparseAt, StepAt};

use super::Case;
use super::rope::Steps;
use super::rows::row_count;
use crate::numbers::{Dice, bf16, compare, to_bf16};
use crate::program::Program;

const BLOCK: usize = 16;
const DIM: usize = 32;
const FREQUENCIES: usize = 8;

pub(super) fn rows() -> Vec<Case> {
    let mut cases = vec![tails(None), tails(Some(1e-6)), append()];
    cases.extend(super::compress::cases());
    cases
}

pub(super) fn attend() -> Vec<Case> {
    vec![select(4), select(40), attention(false, false), attention(true, false), attention(true, true)]
}

/// Rows at positions 37, 3 and 63 of three sequences in scattered blocks.
fn steps() -> Steps {
    Steps {
        positions: vec![37, 3, 63],
        tables: vec![0, 3, 4],
        block_tables: vec![4, 1, 7, 2, 0, 6, 5, 3],
        block_tokens: BLOCK,
        blocks: 8,
    }
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

struct Angles {
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Angles {
    fn new(rows: usize, dice: &mut Dice) -> Self {
        Self { cosines: dice.floats(rows * FREQUENCIES), sines: dice.floats(rows * FREQUENCIES) }
    }

    fn put(&self, p: &mut Program) -> RopeRows {
        let (cosines, sines) = (p.put(&self.cosines), p.put(&self.sines));
        RopeRows { cosines, sines, frequencies: FREQUENCIES as u32, interleaved: true }
    }

    fn row(&self, row: usize) -> (&[f32], &[f32]) {
        (&self.cosines[row * FREQUENCIES..][..FREQUENCIES], &self.sines[row * FREQUENCIES..][..FREQUENCIES])
    }
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
    let at = Floats { at: p.put(&x), stride: (heads * DIM) as u32, width: (heads * DIM) as u32 };
    let (rope, count) = (angles.put(&mut p), row_count(&mut p, rows, 1));
    p.call(calls::rotate_tails(at, heads as u32, eps, rope, count));
    Case::new(format!("rotate_tails, norm {eps:?}"), p, move |p| {
        compare("head", &wide(p.get(at.at)), &expected, 1e-5, 1e-6)
    })
}

fn put_step(p: &mut Program, steps: &Steps, spare: usize) -> StepAt {
    let count = row_count(p, steps.positions.len(), spare);
    steps.put(p, count)
}

fn append() -> Case {
    let (width, steps) = (48, steps());
    let rows = steps.positions.len();
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
    let pool = p.room::<u16>(steps.blocks * BLOCK * width);
    let to = RowsPlace { pool, ratio: 1, block_tokens: BLOCK as u32 };
    let from = Floats { at: p.put(&x), stride: width as u32, width: width as u32 };
    let (gain, rope) = (p.put(&gain), angles.put(&mut p));
    let step = put_step(&mut p, &steps, 1);
    p.call(calls::append_rows(from, (gain, 1e-6), rope, to, step));
    Case::new("append_rows", p, move |p| {
        let found = p.get::<u16>(pool);
        for (row, expected) in expected.chunks_exact(width).enumerate() {
            let (block, slot) = steps.place(row, steps.positions[row] as usize);
            let stored: Vec<f64> = found[(block * BLOCK + slot) * width..][..width].iter().map(|&v| bf16(v)).collect();
            compare("row", &stored, expected, 1.0 / 250.0, 1e-6)?;
        }
        let written = found.iter().filter(|&&v| v != u16::MAX).count();
        if written == rows * width { Ok(()) } else { Err(format!("{written} numbers were written")) }
    })
}

/// A pool of rows, one for `ratio` tokens; what no sequence sees is NaN.
fn filled_pool(steps: &Steps, ratio: usize, width: usize, dice: &mut Dice) -> Vec<u16> {
    let per_block = BLOCK / ratio;
    let mut pool = vec![u16::MAX; steps.blocks * per_block * width];
    for row in 0..steps.positions.len() {
        for i in 0..(steps.positions[row] as usize + 1) / ratio {
            let at = pool_row(steps, row, i, ratio) * width;
            pool[at..at + width].copy_from_slice(&dice.halves(width));
        }
    }
    pool
}

fn pool_row(steps: &Steps, row: usize, i: usize, ratio: usize) -> usize {
    let (block, slot) = steps.place(row, i * ratio);
    block * (BLOCK / ratio) + slot / ratio
}

fn select(k: usize) -> Case {
    let (heads, ratio, steps) = (3, 2, steps());
    let rows = steps.positions.len();
    let mut p = Program::default();
    let mut dice = Dice::new(63 + k as u64);
    let (q, weights) = (dice.floats(rows * heads * DIM), dice.floats(rows * heads));
    let mut pool = filled_pool(&steps, ratio, DIM, &mut dice);
    // Equal scores, of which the lower number wins.
    let best = pool_row(&steps, 0, 9, ratio) * DIM;
    let copy: Vec<u16> = pool[best..best + DIM].to_vec();
    for twin in [3, 12, 13, 17] {
        let at = pool_row(&steps, 0, twin, ratio) * DIM;
        pool[at..at + DIM].copy_from_slice(&copy);
    }
    let value = |row: usize, i: usize| {
        let key = &pool[pool_row(&steps, row, i, ratio) * DIM..][..DIM];
        let head = |h: usize| {
            let q = &q[(row * heads + h) * DIM..][..DIM];
            let dot: f64 = q.iter().zip(key).map(|(&q, &k)| f64::from(q) * bf16(k)).sum();
            f64::from(weights[row * heads + h]) * 0.5 * dot.max(0.0)
        };
        (0..heads).map(head).sum::<f64>()
    };
    let expected: Vec<Vec<f64>> =
        (0..rows).map(|r| (0..(steps.positions[r] as usize + 1) / ratio).map(|i| value(r, i)).collect()).collect();
    let room = 40;
    let floats = |at: Address, width: usize| Floats { at, stride: width as u32, width: width as u32 };
    let (q, weights) = (floats(p.put(&q), heads * DIM), floats(p.put(&weights), heads));
    let from = RowsPlace { pool: p.put(&pool), ratio: ratio as u32, block_tokens: BLOCK as u32 };
    let scores = ScoresAt { at: p.room::<f32>(rows * room), room: room as u32 };
    let out = PicksAt { ids: p.room::<u32>(rows * k), weights: Address::NULL, k: k as u32 };
    let step = put_step(&mut p, &steps, 1);
    calls::select(q, weights, 0.5, from, (scores, out), step).into_iter().for_each(|c| p.call(c));
    Case::new(format!("select {k}"), p, move |p| {
        let (found, ids) = (p.get::<f32>(scores.at), p.get::<u32>(out.ids));
        for (row, expected) in expected.iter().enumerate() {
            let ids = &ids[row * k..][..k];
            let mut order: Vec<u32> = (0..expected.len() as u32).collect();
            if expected.len() > k {
                // Scores are close to the exact ones; the choice is exact for the scores as they are.
                let found = &found[row * room..][..expected.len()];
                compare("score", &wide(found.to_vec()), expected, 1e-5, 1e-5)?;
                order.sort_by(|&a, &b| found[b as usize].total_cmp(&found[a as usize]).then(a.cmp(&b)));
                order.truncate(k);
                order.sort_unstable();
            }
            order.resize(k, u32::MAX);
            if ids != order {
                return Err(format!("row {row}: {ids:?} instead of {order:?}"));
            }
        }
        Ok(())
    })
}

fn attention(compressed: bool, picked: bool) -> Case {
    let (heads, ratio, window, steps) = (3, 2, 20, steps());
    let rows = steps.positions.len();
    let mut p = Program::default();
    let mut dice = Dice::new(66);
    let (q, sinks) = (dice.floats(rows * heads * DIM), dice.floats(heads));
    let (near, far) = (filled_pool(&steps, 1, DIM, &mut dice), filled_pool(&steps, ratio, DIM, &mut dice));
    let angles = Angles::new(rows, &mut dice);
    let k = 6;
    let mut picks = vec![u32::MAX; rows * k];
    for row in 0..rows {
        let visible = (steps.positions[row] + 1) / ratio as u32;
        for (to, i) in picks[row * k..][..k].iter_mut().zip((0..visible).step_by(3)) {
            *to = i;
        }
    }
    let mut expected = Vec::new();
    for (row, head) in (0..rows).flat_map(|r| (0..heads).map(move |h| (r, h))) {
        let position = steps.positions[row] as usize;
        let at = |pool: &[u16], i: usize| pool[i * DIM..][..DIM].iter().map(|&v| bf16(v)).collect::<Vec<f64>>();
        let mut seen: Vec<Vec<f64>> = ((position + 1).saturating_sub(window)..=position)
            .map(|t| at(&near, pool_row(&steps, row, t, 1)))
            .collect();
        let visible = (position + 1) / ratio;
        let chosen: Vec<usize> = match (compressed, picked) {
            (false, _) => Vec::new(),
            (true, false) => (0..visible).collect(),
            (true, true) => picks[row * k..][..k].iter().filter(|&&i| i != u32::MAX).map(|&i| i as usize).collect(),
        };
        seen.extend(chosen.into_iter().map(|i| at(&far, pool_row(&steps, row, i, ratio))));
        let q = &q[(row * heads + head) * DIM..][..DIM];
        let weights: Vec<f64> =
            seen.iter().map(|r| (r.iter().zip(q).map(|(r, &q)| r * f64::from(q)).sum::<f64>() * 0.2).exp()).collect();
        let total = weights.iter().sum::<f64>() + f64::from(sinks[head]).exp();
        let mut out: Vec<f64> =
            (0..DIM).map(|d| seen.iter().zip(&weights).map(|(r, w)| r[d] * w / total).sum()).collect();
        let (c, s) = angles.row(row);
        rotate(&mut out, c, s, -1.0);
        expected.extend(out);
    }
    let floats = |at: Address| Floats { at, stride: (heads * DIM) as u32, width: (heads * DIM) as u32 };
    let place = |pool: Address, ratio: usize| RowsPlace { pool, ratio: ratio as u32, block_tokens: BLOCK as u32 };
    let picks = PicksAt { ids: p.put(&picks), weights: Address::NULL, k: k as u32 };
    let (near, far) = (place(p.put(&near), 1), place(p.put(&far), ratio));
    let args = SparseAt {
        q: floats(p.put(&q)),
        heads: heads as u32,
        scale: 0.2,
        window: window as u32,
        near,
        far: compressed.then_some((far, picked.then_some(picks))),
        most_far: 40,
        sinks: p.put(&sinks),
        rope: angles.put(&mut p),
        out: floats(p.room::<f32>(rows * heads * DIM)),
    };
    let step = put_step(&mut p, &steps, 1);
    p.call(calls::sparse_attention(&args, step));
    Case::new(format!("sparse_attention, compressed {compressed}, picked {picked}"), p, move |p| {
        compare("out", &wide(p.get(args.out.at)), &expected, 2e-5, 2e-6)
    })
}

/// bf16 rounding of what a pool row should hold.
pub(super) fn stored(values: &[f64]) -> Vec<f64> {
    values.iter().map(|&v| bf16(to_bf16(v as f32))).collect()
}
