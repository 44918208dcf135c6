//! Rows of a pool by position, their norm and their rotated ends.

use crate::cpu::isa::versions;
use crate::cpu::math::{LANES, sum};
use crate::cpu::norm::rms_norm_in_place;
use crate::cpu::rope::rotate;
use crate::cpu::run::{for_rows, take};
use crate::cpu::shared::Split;
use crate::cpu::{Cpu, Isa};
use crate::ops::{Act, RopePairs};
use crate::rows::RowStore;
use crate::sparse::{FinishRows, RotateTails, WindowPool};

/// Where the rows of a pool are, in bytes.
#[derive(Clone, Copy)]
pub(super) struct PoolRows {
    /// Numbers in a row.
    width: usize,
    store: RowStore,
    /// Bytes of a row.
    pub(super) bytes: usize,
    /// Rows in a block.
    block: usize,
}

impl PoolRows {
    /// Rows of `width` numbers, `block` in each KV block.
    pub(super) fn new(store: RowStore, width: usize, block: usize) -> Self {
        Self { width, store, bytes: store.row_bytes(width), block }
    }

    /// First byte of row `i` of a sequence.
    #[inline(always)]
    pub(super) fn at(self, table: &[u32], i: usize) -> usize {
        (table[i / self.block] as usize * self.block + i % self.block) * self.bytes
    }

    /// First byte of the row of a position, where a block of `tokens` keeps the rows of its last tokens in a ring.
    #[inline(always)]
    pub(super) fn in_ring(self, table: &[u32], position: usize, tokens: usize) -> usize {
        (table[position / tokens] as usize * self.block + position % tokens % self.block) * self.bytes
    }

    /// Reads the row that begins at a byte.
    #[inline(always)]
    pub(super) fn read(self, isa: Isa, pool: &[u8], at: usize, out: &mut [f32]) {
        read(isa, self.store, &pool[at..][..self.bytes], &mut out[..self.width]);
    }
}

#[inline(always)]
fn read_body(store: RowStore, bytes: &[u8], out: &mut [f32]) {
    store.read(bytes, out);
}

versions! {
    fn read = read_body(store: RowStore, bytes: &[u8], out: &mut [f32])
}

#[inline(always)]
fn dot_body(a: &[f32], b: &[f32]) -> f32 {
    let mut acc = [0f32; LANES];
    let (whole, rest) = a.as_chunks::<LANES>();
    let (other, others_rest) = b.as_chunks::<LANES>();
    for (x, y) in whole.iter().zip(other) {
        for i in 0..LANES {
            acc[i] = x[i].mul_add(y[i], acc[i]);
        }
    }
    for (i, (x, y)) in rest.iter().zip(others_rest).enumerate() {
        acc[i] = x.mul_add(*y, acc[i]);
    }
    sum(acc)
}

versions! {
    /// Scalar product in sixteen lanes, then pairwise.
    pub(super) fn dot = dot_body(a: &[f32], b: &[f32]) -> f32
}

#[inline(always)]
fn add_scaled_body(weight: f32, row: &[f32], out: &mut [f32]) {
    for (o, v) in out.iter_mut().zip(row) {
        *o = v.mul_add(weight, *o);
    }
}

versions! {
    /// `out += weight * row`.
    pub(super) fn add_scaled = add_scaled_body(weight: f32, row: &[f32], out: &mut [f32])
}

/// Rotates the last `2 * cos.len()` numbers.
pub(super) fn rotate_tail(isa: Isa, row: &mut [f32], cos: &[f32], sin: &[f32]) {
    let from = row.len() - 2 * cos.len();
    rotate(isa, &mut row[from..], cos, sin, RopePairs::Interleaved);
}

pub(super) fn rotate_tails(cpu: &mut Cpu, args: &RotateTails) {
    let isa = cpu.isa;
    let rope = &cpu.ropes[args.rope.0 as usize];
    let memory = &mut cpu.acts[args.heads.id as usize];
    let (stride, from, width) = (memory.stride, args.heads.from as usize, args.heads.width());
    let dim = width / args.count;
    assert!(dim * args.count == width, "{args:?} has no whole heads");
    let ones = vec![1.0; dim];
    let rows = cpu.step.count(memory.rows);
    let values = Split::new(&mut memory.values);
    for_rows(&mut cpu.threads, rows, width, &|_, row| {
        // SAFETY: each row is handed out once.
        let heads = unsafe { values.part(row * stride + from, width) };
        let (cos, sin) = rope.row(row);
        for head in heads.chunks_exact_mut(dim) {
            if let Some(eps) = args.norm_eps {
                rms_norm_in_place(isa, head, &ones, eps);
            }
            rotate_tail(isa, head, cos, sin);
            args.rounding.apply(head);
        }
    });
}

pub(super) fn finish_rows(cpu: &mut Cpu, args: &FinishRows) {
    let isa = cpu.isa;
    let width = args.rows.width();
    let rope = &cpu.ropes[args.rope.0 as usize];
    let gain = &*cpu.vectors[args.gain.0 as usize];
    let memory = &mut cpu.acts[args.rows.id as usize];
    let (stride, from) = (memory.stride, args.rows.from as usize);
    let values = Split::new(&mut memory.values);
    for_rows(&mut cpu.threads, cpu.step.tokens.len(), width, &|_, row| {
        // SAFETY: each row is handed out once.
        let x = unsafe { values.part(row * stride + from, width) };
        rms_norm_in_place(isa, x, gain, args.eps);
        let (cos, sin) = rope.row(row);
        rotate_tail(isa, x, cos, sin);
        args.rounding.apply(x);
        args.store.round(x);
    });
}

pub(super) fn keep_rows(cpu: &mut Cpu, rows: Act, to: &WindowPool) {
    let (width, tokens) = (rows.width(), cpu.limits.block_tokens);
    let layout = PoolRows::new(to.store, width, to.ring);
    let source = &cpu.acts[rows.id as usize];
    let pool = Split::new(cpu.pools[to.pool.0 as usize].lines.bytes_mut());
    let step = &cpu.step;
    for_rows(&mut cpu.threads, step.tokens.len(), width, &|_, row| {
        let (position, e) = (step.positions[row] as usize, step.extent(row));
        // The last position of the block, or of the step if that is in the same block.
        let last = (position / tokens * tokens + tokens).min((e.start + e.rows) as usize) - 1;
        if last - position >= to.ring {
            return;
        }
        let at = layout.in_ring(step.table(row), position, tokens);
        // SAFETY: a block belongs to one sequence while it is written, and of a block's rows in this step only the last `ring`
        // get here, so their places differ.
        let bytes = unsafe { pool.part(at, layout.bytes) };
        to.store.write(&source.values[row * source.stride + rows.from as usize..][..width], bytes);
    });
}

pub(super) fn preceding_rows(cpu: &mut Cpu, rows: Act, kept: &WindowPool, out: Act) {
    let (width, tokens) = (rows.width(), cpu.limits.block_tokens);
    assert!(out.width() == width && out.id != rows.id, "{rows:?} can't be moved into {out:?}");
    let layout = PoolRows::new(kept.store, width, kept.ring);
    let mut memory = take(&mut cpu.acts, out);
    let source = &cpu.acts[rows.id as usize];
    let pool = cpu.pools[kept.pool.0 as usize].lines.bytes();
    let (step, isa, stride) = (&cpu.step, cpu.isa, memory.stride);
    let to = Split::new(&mut memory.values);
    for_rows(&mut cpu.threads, step.tokens.len(), width, &|_, row| {
        // SAFETY: each row is handed out once.
        let out = unsafe { to.part(row * stride + out.from as usize, width) };
        let (position, start) = (step.positions[row] as usize, step.extent(row).start as usize);
        if position == 0 {
            out.fill(0.0);
        } else if position > start {
            out.copy_from_slice(&source.values[(row - 1) * source.stride + rows.from as usize..][..width]);
        } else {
            layout.read(isa, pool, layout.in_ring(step.table(row), position - 1, tokens), out);
        }
    });
    cpu.acts[out.id as usize] = memory;
}
