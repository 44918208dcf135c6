//! One transformer layer with random weights, over the operations as a model calls them.

use bytes::Bytes;
use sluicegate_kernels::batch::{Batch, Extent, Limits, Pass};
use sluicegate_kernels::cpu::{Cpu, CpuOptions};
use sluicegate_kernels::nvfp4;
use sluicegate_kernels::ops::{
    Act, Attention, Build, KvShape, KvStore, Linear, Operand, Ops, Pool, Rope, RopeAppend, RopePairs, Rows, Table,
    Vector,
};
use sluicegate_kernels::tensor::{Matrix, Values};

pub(crate) const VOCAB: usize = 72;
const HIDDEN: usize = 64;
const INNER: usize = 80;
const HEADS: usize = 6;
const KV_HEADS: usize = 2;
const DIM: usize = 16;

/// Some consecutive tokens of a sequence.
pub(crate) struct Run {
    pub(crate) tokens: Vec<u32>,
    pub(crate) start: u32,
    pub(crate) table: Vec<u32>,
}

/// Numbers in [-1, 1) from a counter.
pub(crate) fn numbers(seed: u64, n: usize) -> Vec<f32> {
    let mix = |i: u64| {
        let z = (i + seed * 1_000_003).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((z ^ (z >> 27)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n as u64).map(mix).collect()
}

pub(crate) fn nvfp4_matrix(seed: u64, rows: usize, cols: usize) -> Matrix {
    let w = numbers(seed, rows * cols);
    let global = nvfp4::global_scale(w.iter().fold(0f32, |m, x| m.max(x.abs())));
    let (codes, scales) = nvfp4::quantize(&w, global).expect("whole blocks");
    Matrix { rows, cols, values: Values::Nvfp4 { codes: codes.into(), scales: scales.into(), global } }
}

pub(crate) fn bf16_matrix(seed: u64, rows: usize, cols: usize) -> Matrix {
    let bytes: Vec<u8> =
        numbers(seed, rows * cols).iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect();
    Matrix { rows, cols, values: Values::Bf16(Bytes::from(bytes)) }
}

/// Handles of the layer.
pub(crate) struct Layer {
    cpu: Cpu,
    embedding: Table,
    gain: Vector,
    rope: Rope,
    qkv: Linear,
    o: Linear,
    gate_up: Linear,
    down: Linear,
    head: Linear,
    x: Act,
    qkv_act: Act,
    last: Act,
    logits: Act,
    normed: Operand,
    attended: Operand,
    inner: Operand,
    last_normed: Operand,
    pool: Pool,
    kv: KvShape,
}

impl Layer {
    pub(crate) fn new(options: CpuOptions, store: KvStore, blocks: usize) -> Self {
        let limits = Limits { rows: 256, samples: 256, table_entries: 256, block_tokens: 16, blocks, slots: 1 };
        let mut cpu = Cpu::new(options, limits).expect("a device");
        let c = &mut cpu;
        let kv = KvShape { heads: KV_HEADS, head_dim: DIM, store };
        let embedding = c.table(&bf16_matrix(1, VOCAB, HIDDEN)).expect("a table");
        let gain = c.vector(&numbers(2, HIDDEN));
        let q = nvfp4_matrix(3, HEADS * DIM, HIDDEN);
        // Mixed formats in one stack, and a row count that is no multiple of a tile.
        let (k, v) = (bf16_matrix(4, KV_HEADS * DIM, HIDDEN), nvfp4_matrix(5, KV_HEADS * DIM, HIDDEN));
        let qkv = c.stack(&[&q, &k, &v]).expect("qkv");
        let o = c.stack(&[&nvfp4_matrix(6, HIDDEN, HEADS * DIM)]).expect("o");
        let gate_up = c.gated(&nvfp4_matrix(7, INNER, HIDDEN), &nvfp4_matrix(8, INNER, HIDDEN)).expect("gate");
        let down = c.stack(&[&nvfp4_matrix(9, HIDDEN, INNER)]).expect("down");
        let head = c.head(&bf16_matrix(1, VOCAB, HIDDEN)).expect("head");
        let frequencies: Vec<f64> = (0..DIM / 2).map(|i| 0.5f64.powi(i as i32)).collect();
        Self {
            rope: c.rope(&frequencies, 1.0),
            x: c.act(Rows::Batch, HIDDEN),
            qkv_act: c.act(Rows::Batch, (HEADS + 2 * KV_HEADS) * DIM),
            last: c.act(Rows::Samples, HIDDEN),
            logits: c.act(Rows::Samples, VOCAB),
            normed: c.operand(Rows::Batch, &[qkv, gate_up]),
            attended: c.operand(Rows::Batch, &[o]),
            inner: c.operand(Rows::Batch, &[down]),
            last_normed: c.operand(Rows::Samples, &[head]),
            pool: c.pool(kv.row_bytes(), 1).expect("a pool"),
            cpu,
            embedding,
            gain,
            qkv,
            o,
            gate_up,
            down,
            head,
            kv,
        }
    }

    /// Bits of the logits of every row.
    pub(crate) fn step(&mut self, runs: &[Run]) -> Vec<Vec<u32>> {
        let mut tokens = Vec::new();
        let mut extents = Vec::new();
        let mut tables = Vec::new();
        for run in runs {
            let (row, table, rows) = (tokens.len() as u32, tables.len() as u32, run.tokens.len() as u32);
            extents.push(Extent { row, rows, start: run.start, table, table_len: run.table.len() as u32, slot: 0 });
            tokens.extend_from_slice(&run.tokens);
            tables.extend_from_slice(&run.table);
        }
        let samples: Vec<u32> = (0..tokens.len() as u32).collect();
        let batch =
            Batch { tokens: &tokens, extents: &extents, block_tables: &tables, samples: &samples, pass: Pass::Model };
        self.cpu.begin(&batch).expect("a step");
        self.forward();
        let mut rows = self.cpu.host(self.logits).expect("logits");
        (0..rows.rows()).map(|r| rows.row(r).iter().map(|v| v.to_bits()).collect()).collect()
    }

    fn forward(&mut self) {
        let c = &mut self.cpu;
        c.embed(self.embedding, self.x);
        c.rms_norm(self.x, self.gain, 1e-5, self.normed);
        c.linear(self.normed, self.qkv, self.qkv_act);
        c.rope_append(&RopeAppend {
            qkv: self.qkv_act,
            q_heads: HEADS,
            kv: self.kv,
            rope: self.rope,
            pairs: RopePairs::Halves,
            norm: None,
            pool: self.pool,
        });
        let q = self.qkv_act.columns(0, HEADS * DIM);
        let args = Attention { q, q_heads: HEADS, kv: self.kv, scale: 0.25, pool: self.pool };
        c.attention(&args, self.attended);
        c.linear_add(self.attended, self.o, self.x);
        c.rms_norm(self.x, self.gain, 1e-5, self.normed);
        c.linear_gated(self.normed, self.gate_up, Some(3.0), self.inner);
        c.linear_add(self.inner, self.down, self.x);
        c.gather(self.x, self.last);
        c.rms_norm(self.last, self.gain, 1e-5, self.last_normed);
        c.linear(self.last_normed, self.head, self.logits);
    }
}
