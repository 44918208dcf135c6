//! Rows of a pool by position, their norm and their rotated ends.

use crate::cpu::Cpu;
use crate::cpu::element::{Element, Plain};
use crate::cpu::isa::versions;
use crate::cpu::math::{LANES, sum};
use crate::cpu::norm::rms_norm_in_place;
use crate::cpu::rope::rotate;
use crate::cpu::run::for_rows;
use crate::cpu::shared::Split;
use crate::ops::RopePairs;
use crate::sparse::{AppendRows, RotateTails};

/// A pool of rows of one width, each covering `ratio` tokens.
#[derive(Clone, Copy)]
pub(super) struct PoolRows {
    pub(super) width: usize,
    /// Rows in a block.
    pub(super) block: usize,
}

impl PoolRows {
    pub(super) fn new(width: usize, block_tokens: usize, ratio: usize) -> Self {
        Self { width, block: block_tokens / ratio }
    }

    /// First element of row `i` of a sequence.
    #[inline(always)]
    pub(super) fn at(self, table: &[u32], i: usize) -> usize {
        (table[i / self.block] as usize * self.block + i % self.block) * self.width
    }
}

#[inline(always)]
fn dot_body<E: Element>(a: &[f32], b: &[E]) -> f32 {
    let mut acc = [0f32; LANES];
    let (whole, rest) = a.as_chunks::<LANES>();
    let (other, others_rest) = b.as_chunks::<LANES>();
    for (x, y) in whole.iter().zip(other) {
        for i in 0..LANES {
            acc[i] = x[i].mul_add(y[i].widen(), acc[i]);
        }
    }
    for (i, (x, y)) in rest.iter().zip(others_rest).enumerate() {
        acc[i] = x.mul_add(y.widen(), acc[i]);
    }
    sum(acc)
}

versions! {
    /// Scalar product in sixteen lanes, then pairwise.
    pub(super) fn dot = dot_body [E: Element] (a: &[f32], b: &[E]) -> f32
}

#[inline(always)]
fn add_scaled_body<E: Element>(weight: f32, row: &[E], out: &mut [f32]) {
    for (o, v) in out.iter_mut().zip(row) {
        *o = v.widen().mul_add(weight, *o);
    }
}

versions! {
    /// `out += weight * row`.
    pub(super) fn add_scaled = add_scaled_body [E: Element] (weight: f32, row: &[E], out: &mut [f32])
}

/// Rotates the last `2 * cos.len()` numbers.
pub(super) fn rotate_tail(cpu_isa: crate::cpu::Isa, row: &mut [f32], cos: &[f32], sin: &[f32]) {
    let from = row.len() - 2 * cos.len();
    rotate(cpu_isa, &mut row[from..], cos, sin, RopePairs::Interleaved);
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
        }
    });
}

pub(super) fn append_rows<E: Element + Plain>(cpu: &mut Cpu, args: &AppendRows) {
    let isa = cpu.isa;
    let width = args.rows.width();
    let layout = PoolRows::new(width, cpu.limits.block_tokens, 1);
    let rope = &cpu.ropes[args.rope.0 as usize];
    let gain = &*cpu.vectors[args.gain.0 as usize];
    let memory = &mut cpu.acts[args.rows.id as usize];
    let (stride, from) = (memory.stride, args.rows.from as usize);
    let values = Split::new(&mut memory.values);
    let pool = Split::new(cpu.pools[args.pool.0 as usize].lines.elements_mut::<E>());
    let step = &cpu.step;
    for_rows(&mut cpu.threads, step.tokens.len(), width, &|_, row| {
        // SAFETY: each row is handed out once.
        let x = unsafe { values.part(row * stride + from, width) };
        rms_norm_in_place(isa, x, gain, args.eps);
        let (cos, sin) = rope.row(row);
        rotate_tail(isa, x, cos, sin);
        let at = layout.at(step.table(row), step.positions[row] as usize);
        // SAFETY: rows are distinct, and so are their slots: a block belongs to one sequence while it is written.
        let to = unsafe { pool.part(at, width) };
        to.iter_mut().zip(&*x).for_each(|(t, v)| *t = E::narrow(*v));
    });
}
