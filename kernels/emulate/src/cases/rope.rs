//! Head norms, rotation and the append to KV memory.

use sluicegate_kernels::cuda::call::{Floats, RowCount};
use sluicegate_kernels::cuda::calls::{self, HeadGains, KvPlace, RopeRows, StepAt};

use super::Case;
use super::rows::row_count;
use crate::numbers::{Dice, bf16, compare};
use crate::program::Program;

pub(super) fn rope() -> Vec<Case> {
    vec![
        case(false, true, 6, 2, 64, 32),
        case(true, false, 3, 1, 32, 8),
        case(false, false, 2, 2, 128, 64),
        // A pair's numbers were normalised by two lanes.
        case(false, true, 3, 1, 64, 8),
    ]
}

/// Sequences in scattered blocks.
pub(super) struct Steps {
    pub(super) positions: Vec<u32>,
    /// For each row, the positions of its sequence's first row and behind its last.
    pub(super) starts: Vec<u32>,
    pub(super) ends: Vec<u32>,
    pub(super) tables: Vec<u32>,
    pub(super) block_tables: Vec<u32>,
    pub(super) block_tokens: usize,
    pub(super) blocks: usize,
}

impl Steps {
    /// Two: rows 0 and 1 continue at position 15, row 2 is at position 3.
    fn small() -> Self {
        Self {
            positions: vec![15, 16, 3],
            starts: vec![15, 15, 3],
            ends: vec![17, 17, 4],
            tables: vec![0, 0, 2],
            block_tables: vec![4, 1, 2],
            block_tokens: 16,
            blocks: 5,
        }
    }

    pub(super) fn put(&self, p: &mut Program, rows: RowCount) -> StepAt {
        StepAt {
            positions: p.put(&self.positions),
            starts: p.put(&self.starts),
            ends: p.put(&self.ends),
            tables: p.put(&self.tables),
            block_tables: p.put(&self.block_tables),
            rows,
        }
    }

    /// Block and slot of a position of a row's sequence.
    pub(super) fn place(&self, row: usize, position: usize) -> (usize, usize) {
        let block = self.block_tables[self.tables[row] as usize + position / self.block_tokens];
        (block as usize, position % self.block_tokens)
    }
}

fn case(interleaved: bool, normed: bool, q_heads: usize, heads: usize, dim: usize, frequencies: usize) -> Case {
    let mut p = Program::default();
    let mut dice = Dice::new(dim as u64);
    let steps = Steps::small();
    let rows = steps.positions.len();
    let width = (q_heads + 2 * heads) * dim;
    let x = dice.floats(rows * width);
    let (cosines, sines) = (dice.floats(rows * frequencies), dice.floats(rows * frequencies));
    let (gain_q, gain_k, eps) = (dice.floats(dim), dice.floats(dim), 1e-6f32);
    let mut expected: Vec<f64> = x.iter().map(|&v| v.into()).collect();
    for (i, head) in expected.chunks_exact_mut(dim).enumerate() {
        let (row, h) = (i / (q_heads + 2 * heads), i % (q_heads + 2 * heads));
        if h >= q_heads + heads {
            continue;
        }
        if normed {
            let scale = 1.0 / (head.iter().map(|v| v * v).sum::<f64>() / dim as f64 + f64::from(eps)).sqrt();
            let gain = if h < q_heads { &gain_q } else { &gain_k };
            head.iter_mut().zip(gain).for_each(|(v, &g)| *v *= scale * f64::from(g));
        }
        for f in 0..frequencies {
            let (a, b) = if interleaved { (2 * f, 2 * f + 1) } else { (f, f + frequencies) };
            let (c, s) = (f64::from(cosines[row * frequencies + f]), f64::from(sines[row * frequencies + f]));
            (head[a], head[b]) = (head[a] * c - head[b] * s, head[b] * c + head[a] * s);
        }
    }
    let at = p.put(&x);
    let qkv = Floats { at, stride: width as u32, width: width as u32 };
    let pool = p.room::<u16>(steps.blocks * 2 * heads * steps.block_tokens * dim);
    let kv = KvPlace { pool, heads: heads as u32, dim: dim as u32, block_tokens: steps.block_tokens as u32 };
    let (cosines, sines) = (p.put(&cosines), p.put(&sines));
    let rope = RopeRows { cosines, sines, frequencies: frequencies as u32, interleaved };
    let norm = normed.then(|| HeadGains { q: p.put(&gain_q), k: p.put(&gain_k), eps });
    let count = row_count(&mut p, rows, 2);
    let step = steps.put(&mut p, count);
    p.call(calls::rope_append(qkv, rope, norm, kv, step));
    let shape = (q_heads, heads, dim);
    Case::new(format!("rope_append {q_heads}+{heads} heads of {dim}"), p, move |p| {
        let found: Vec<f64> = p.get::<f32>(at).into_iter().map(f64::from).collect();
        compare("qkv", &found, &expected, 1e-5, 1e-6)?;
        check_pool(&p.get::<u16>(pool), &steps, &expected, shape)
    })
}

/// Every number of the pool is a rounded key or value, or was never written.
fn check_pool(pool: &[u16], steps: &Steps, rows: &[f64], shape: (usize, usize, usize)) -> Result<(), String> {
    let (q_heads, heads, dim) = shape;
    let width = (q_heads + 2 * heads) * dim;
    let mut expected = vec![f64::NAN; pool.len()];
    for row in 0..steps.positions.len() {
        let (block, slot) = steps.place(row, steps.positions[row] as usize);
        for h in 0..2 * heads {
            let at = ((block * 2 * heads + h) * steps.block_tokens + slot) * dim;
            expected[at..at + dim].copy_from_slice(&rows[row * width + (q_heads + h) * dim..][..dim]);
        }
    }
    for (i, (&code, &value)) in pool.iter().zip(&expected).enumerate() {
        let untouched = value.is_nan() && code == u16::MAX;
        if !untouched && (bf16(code) - value).abs() > value.abs() / 250.0 + 1e-6 {
            return Err(format!("pool[{i}] is {} instead of {value}", bf16(code)));
        }
    }
    Ok(())
}
