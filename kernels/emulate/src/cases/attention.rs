//! Paged attention: against double precision, and the same bits however units are spread and rows are grouped.

use sluicegate_kernels::batch::Extent;
use sluicegate_kernels::cuda::call::{Floats, Inputs, RowCount};
use sluicegate_kernels::cuda::calls::{self, AttentionAt, KvPlace, QueryRows, Spread, StepAt, Tile, TilesAt};

use super::Case;
use super::rows::{check_inputs, inputs, row_count};
use crate::numbers::{Dice, bf16, to_bf16};
use crate::program::Program;

const BLOCK_TOKENS: usize = 16;

#[derive(Clone, Copy)]
struct Shape {
    q_heads: usize,
    heads: usize,
    dim: usize,
}

/// A step of several sequences whose blocks are scattered over the pool.
struct Scene {
    shape: Shape,
    extents: Vec<Extent>,
    block_tables: Vec<u32>,
    pool: Vec<u16>,
    q: Vec<f32>,
}

impl Scene {
    /// Sequences of (tokens already there, rows of this step).
    fn new(shape: Shape, sequences: &[(usize, usize)], seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let lengths: Vec<usize> = sequences.iter().map(|(start, rows)| (start + rows).div_ceil(BLOCK_TOKENS)).collect();
        let blocks: usize = lengths.iter().sum();
        // A permutation: 2b + 1 steps through an odd number of blocks.
        let odd = blocks | 1;
        let block_tables: Vec<u32> = (0..blocks).map(|b| ((b * 2 + 1) % odd) as u32).collect();
        let (mut extents, mut row, mut table) = (Vec::new(), 0, 0);
        for (&(start, rows), &len) in sequences.iter().zip(&lengths) {
            extents.push(Extent { row, rows: rows as u32, start: start as u32, table, table_len: len as u32, slot: 0 });
            row += rows as u32;
            table += len as u32;
        }
        // Whatever no sequence has written is NaN.
        let mut pool = vec![0xffff; odd * 2 * shape.heads * BLOCK_TOKENS * shape.dim];
        for e in &extents {
            for position in 0..(e.start + e.rows) as usize {
                for kind in 0..2 * shape.heads {
                    let at = Self::at(&block_tables, shape, e, position, kind);
                    pool[at..at + shape.dim].copy_from_slice(&dice.halves(shape.dim));
                }
            }
        }
        let q = dice.floats(row as usize * shape.q_heads * shape.dim).into_iter().map(|v| v * 3.0).collect();
        Self { shape, extents, block_tables, pool, q }
    }

    /// Keys are kinds `0..heads`, values those behind.
    fn at(tables: &[u32], shape: Shape, e: &Extent, position: usize, kind: usize) -> usize {
        let block = tables[e.table as usize + position / BLOCK_TOKENS] as usize;
        ((block * 2 * shape.heads + kind) * BLOCK_TOKENS + position % BLOCK_TOKENS) * shape.dim
    }

    fn number(&self, e: &Extent, position: usize, kind: usize, d: usize) -> f64 {
        bf16(self.pool[Self::at(&self.block_tables, self.shape, e, position, kind) + d])
    }

    fn expected(&self, scale: f64) -> Vec<f64> {
        let Shape { q_heads, heads, dim } = self.shape;
        let mut out = Vec::new();
        for e in &self.extents {
            for (row, head) in (0..e.rows as usize).flat_map(|row| (0..q_heads).map(move |h| (row, h))) {
                let q = &self.q[((e.row as usize + row) * q_heads + head) * dim..][..dim];
                let (kv, last) = (head / (q_heads / heads), e.start as usize + row);
                let score = |p: usize| {
                    let products = (0..dim).map(|d| bf16(to_bf16(q[d])) * self.number(e, p, kv, d));
                    products.sum::<f64>() * scale
                };
                let scores: Vec<f64> = (0..=last).map(score).collect();
                let top = scores.iter().fold(f64::NEG_INFINITY, |m, &s| m.max(s));
                let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
                let total: f64 = weights.iter().sum();
                out.extend((0..dim).map(|d| {
                    let sum: f64 = weights.iter().enumerate().map(|(p, w)| w * self.number(e, p, heads + kv, d)).sum();
                    sum / total
                }));
            }
        }
        out
    }

    fn rows(&self) -> usize {
        self.extents.iter().map(|e| e.rows as usize).sum()
    }

    fn positions(&self) -> Vec<u32> {
        self.extents.iter().flat_map(|e| e.start..e.start + e.rows).collect()
    }

    fn put_step(&self, p: &mut Program) -> StepAt {
        let by_row = |value: fn(&Extent) -> u32| -> Vec<u32> {
            self.extents.iter().flat_map(|e| vec![value(e); e.rows as usize]).collect()
        };
        StepAt {
            positions: p.put(&self.positions()),
            starts: p.put(&by_row(|e| e.start)),
            ends: p.put(&by_row(|e| e.start + e.rows)),
            tables: p.put(&by_row(|e| e.table)),
            block_tables: p.put(&self.block_tables),
            rows: row_count(p, self.rows(), 0),
        }
    }
}

fn put_tiles(p: &mut Program, tiles: &[Tile], rows: QueryRows) -> TilesAt {
    let list: Vec<u32> = tiles.iter().flat_map(|t| [t.row, t.tokens, t.unit]).collect();
    let count = RowCount { at: p.put(&[tiles.len() as u32]), most: tiles.len() as u32 + 1 };
    TilesAt { list: p.put(&list), count, rows }
}

pub(super) fn attention() -> Vec<Case> {
    let shape = |q_heads, heads, dim| Shape { q_heads, heads, dim };
    vec![
        // Decode rows short and long, one exactly at a unit's end, and a prefill chunk across a unit's boundary.
        case(shape(6, 2, 16), &[(0, 1), (127, 1), (300, 1), (120, 20)], 1),
        case(shape(4, 1, 32), &[(128, 1), (0, 33)], 2),
        case(shape(8, 2, 64), &[(200, 1), (5, 3)], 3),
        case(shape(2, 2, 128), &[(130, 2)], 4),
        // More query heads to a KV head than a tile has rows.
        case(shape(20, 1, 16), &[(140, 2)], 5),
    ]
}

/// The same step five ways; the first is compared with double precision, the others with the first.
fn case(shape: Shape, sequences: &[(usize, usize)], seed: u64) -> Case {
    let scene = Scene::new(shape, sequences, seed);
    let mut p = Program::default();
    let width = shape.q_heads * shape.dim;
    let (rows, scale) = (scene.rows(), 1.0 / (shape.dim as f32).sqrt());
    let q = Floats { at: p.put(&scene.q), stride: width as u32, width: width as u32 };
    let pool = p.put(&scene.pool);
    let kv = KvPlace { pool, heads: shape.heads as u32, dim: shape.dim as u32, block_tokens: BLOCK_TOKENS as u32 };
    let step = scene.put_step(&mut p);
    let group = (shape.q_heads / shape.heads) as u32;
    let mut outs: Vec<Inputs> = Vec::new();
    for (query_rows, per_block) in [
        (QueryRows::Few, None),
        (QueryRows::Many, None),
        (QueryRows::Few, Some(1)),
        (QueryRows::Few, Some(2)),
        (QueryRows::Many, Some(1)),
    ] {
        let (list, units) = calls::tiles(&scene.extents, group, query_rows);
        let tiles = put_tiles(&mut p, &list, query_rows);
        let out = inputs(&mut p, rows, width);
        outs.push(out);
        let args = AttentionAt { q, kv, scale, out, step, tiles };
        match per_block {
            None => p.call(calls::attention(&args, Spread::Whole)),
            Some(per_block) => {
                let partials = p.room::<f32>(calls::partial_numbers(units, shape.q_heads as u32, &kv, query_rows));
                p.call(calls::attention(&args, Spread::Split { per_block, most_units: 4, partials }));
                p.call(calls::attention_merge(&args, partials));
            }
        }
    }
    let expected = scene.expected(f64::from(scale));
    let Shape { q_heads, heads, dim } = shape;
    Case::new(format!("attention {q_heads}/{heads} heads of {dim}"), p, move |p| {
        let found: Vec<f64> = p.get::<f32>(outs[0].floats).into_iter().map(f64::from).collect();
        // Weights are rounded to bf16, values are below 1.
        crate::numbers::compare("attention", &found, &expected, 4e-3, 4e-3)?;
        check_inputs(p, outs[0], width, &found)?;
        for (i, out) in outs.iter().enumerate().skip(1) {
            if p.get::<u32>(out.floats) != p.get::<u32>(outs[0].floats) {
                return Err(format!("way {i} of running has other bits"));
            }
        }
        Ok(())
    })
}
