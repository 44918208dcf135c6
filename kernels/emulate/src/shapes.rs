//! Launches in the shapes of one layer of Qwen3-8B, for timing: what they compute is not looked at.

use sluicegate_kernels::batch::Extent;
use sluicegate_kernels::cuda::call::{Address, Floats, Inputs, RowCount};
use sluicegate_kernels::cuda::calls::{
    self, AttentionAt, Finish, KvPlace, QueryRows, Spread, StepAt, TileRows, TilesAt, WeightsAt,
};
use sluicegate_kernels::cuda::pack::Format;

use crate::program::Program;

/// Launches and the memory that they cannot do without touching once.
#[derive(Debug)]
pub struct Shape {
    /// Kernel and shape.
    pub name: String,
    /// The launches.
    pub program: Program,
    /// Bytes read and written at least.
    pub bytes: f64,
    /// Multiplications and additions.
    pub operations: f64,
}

/// All of them; `scale` divides widths and lengths, for where there is no GPU.
#[must_use]
pub fn shapes(scale: usize) -> Vec<Shape> {
    let (wide, hidden) = (24_576 / scale, 4096 / scale);
    let rows = |n: usize| (n / scale).max(1);
    vec![
        gemm(1, wide, hidden),
        gemm(16, wide, hidden),
        gemm(64, wide, hidden),
        gemm(rows(2048), wide, hidden),
        decode(1, rows(4096)),
        decode(rows(16), rows(4096)),
        norm(rows(4096), hidden),
    ]
}

fn count(p: &mut Program, rows: usize) -> RowCount {
    RowCount { at: p.put(&[rows as u32]), most: rows as u32 }
}

/// `m` rows times an NVFP4 matrix, of ones.
fn gemm(m: usize, n: usize, k: usize) -> Shape {
    let mut p = Program::default();
    let weights = WeightsAt {
        format: Format::Nvfp4,
        codes: p.bytes(vec![0x22; n.next_multiple_of(32) * k / 2]),
        scales: p.bytes(vec![0x38; n.next_multiple_of(32) * k / 16]),
        alpha: p.put(&vec![1f32; n.next_multiple_of(32)]),
        columns: n as u32,
        steps: k.div_ceil(64) as u32,
    };
    let a = Inputs {
        halves: p.put(&vec![0x3c00u16; m * k.next_multiple_of(64)]),
        half_stride: k.next_multiple_of(64) as u32,
        floats: Address::NULL,
        float_stride: 0,
    };
    let out = Floats { at: p.room::<f32>(m * n), stride: n as u32, width: n as u32 };
    let rows = count(&mut p, m);
    p.call(calls::gemm(a, weights, Finish::Store(out), rows, TileRows::of(rows.most)));
    let bytes = (n * k) as f64 * 0.5625 + (m * k * 2 + m * n * 4) as f64;
    Shape { name: format!("gemm_nvfp4 {m} x {n} x {k}"), program: p, bytes, operations: 2.0 * (m * n * k) as f64 }
}

/// A token of each of `sequences` that hold `len`, 32 query heads and 8 KV heads of 128.
fn decode(sequences: usize, len: usize) -> Shape {
    const BLOCK: usize = 16;
    let (q_heads, heads, dim) = (32usize, 8usize, 128usize);
    let (blocks, width) = (len.div_ceil(BLOCK), q_heads * dim);
    let extent = |i: usize| Extent {
        row: i as u32,
        rows: 1,
        start: len as u32 - 1,
        table: (i * blocks) as u32,
        table_len: blocks as u32,
        slot: i as u32,
    };
    let extents: Vec<Extent> = (0..sequences).map(extent).collect();
    let (tiles, units) = calls::tiles(&extents, (q_heads / heads) as u32, QueryRows::Few);
    let mut p = Program::default();
    let by_row = |p: &mut Program, value: fn(&Extent) -> u32| p.put(&extents.iter().map(value).collect::<Vec<u32>>());
    let step = StepAt {
        positions: by_row(&mut p, |e| e.start),
        starts: by_row(&mut p, |e| e.start),
        ends: by_row(&mut p, |e| e.start + e.rows),
        tables: by_row(&mut p, |e| e.table),
        block_tables: p.put(&(0..(sequences * blocks) as u32).collect::<Vec<u32>>()),
        rows: count(&mut p, sequences),
    };
    let kv = KvPlace {
        pool: p.put(&vec![0x3c00u16; sequences * blocks * BLOCK * 2 * heads * dim]),
        heads: heads as u32,
        dim: dim as u32,
        block_tokens: BLOCK as u32,
    };
    let list: Vec<u32> = tiles.iter().flat_map(|t| [t.row, t.tokens, t.unit]).collect();
    let tiles = TilesAt { list: p.put(&list), count: count(&mut p, tiles.len()), rows: QueryRows::Few };
    let partials = p.room::<f32>(calls::partial_numbers(units, q_heads as u32, &kv, QueryRows::Few));
    let floats = |p: &mut Program| p.put(&vec![0.5f32; sequences * width]);
    let out = Inputs { halves: Address::NULL, half_stride: 0, floats: floats(&mut p), float_stride: width as u32 };
    let q = Floats { at: floats(&mut p), stride: width as u32, width: width as u32 };
    let at = AttentionAt { q, kv, scale: 0.09, out, step, tiles };
    let most_units = (len as u32).div_ceil(calls::UNIT);
    p.call(calls::attention(&at, Spread::Split { per_block: 4, most_units, partials }));
    p.call(calls::attention_merge(&at, partials));
    let bytes = (sequences * (len * 2 * heads * dim * 2 + width * 8)) as f64;
    let operations = (sequences * len * width * 4) as f64;
    Shape { name: format!("attention, {sequences} sequences of {len}"), program: p, bytes, operations }
}

fn norm(rows: usize, width: usize) -> Shape {
    let mut p = Program::default();
    let x = Floats { at: p.put(&vec![0.5f32; rows * width]), stride: width as u32, width: width as u32 };
    let gain = p.put(&vec![1f32; width]);
    let (halves, half_stride) = (p.room::<u16>(rows * width), width as u32);
    let out = Inputs { halves, half_stride, floats: Address::NULL, float_stride: 0 };
    let count = count(&mut p, rows);
    p.call(calls::rms_norm(x, gain, 1e-6, out, count));
    Shape { name: format!("rms_norm {rows} x {width}"), program: p, bytes: (rows * width * 6) as f64, operations: 0.0 }
}
