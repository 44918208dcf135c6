//! Running on the CPU: each operation is a loop over rows or row tiles, shared between the threads.

use std::sync::Arc;

use super::attention::{Cached, STEP, attend, attend_two};
use super::cells::CELL;
use super::draw::Pending;
use super::element::{Element, Plain};
use super::kv::{BlockLayout, by_store};
use super::linear::run::{Input, Loop};
use super::linear::{Column, Stack, floats_at};
use super::norm::rms_norm;
use super::rope::{RowArgs, append_row};
use super::shared::Split;
use super::threads::Threads;
use super::{ActMemory, Cpu};
use crate::batch::Batch;
use crate::nvfp4;
use crate::ops::{
    Act, Attention, DeviceError, HostRows, Linear, Operand, Ops, Pool, RopeAppend, Rows, State, Step, Table, Vector,
};
use crate::tensor::{Matrix, Values};

/// Numbers below which a loop isn't worth sharing.
const SMALL: usize = 8_192;

/// Calls `job(worker, row)` for every row, shared if there is enough to do.
pub(crate) fn for_rows(threads: &mut Threads, rows: usize, width: usize, job: &(dyn Fn(usize, usize) + Sync)) {
    if rows * width < SMALL {
        (0..rows).for_each(|row| job(0, row));
        return;
    }
    let chunks = rows.min(threads.count() * 4);
    threads.run(chunks, &|worker, chunk| {
        (rows * chunk / chunks..rows * (chunk + 1) / chunks).for_each(|row| job(worker, row));
    });
}

pub(crate) fn take(acts: &mut [ActMemory], act: Act) -> ActMemory {
    let empty = ActMemory { rows: Rows::Batch, stride: 1, values: Vec::new() };
    std::mem::replace(&mut acts[act.id as usize], empty)
}

fn store(add: bool, column: &Column, to: &mut Column) {
    if add { to.iter_mut().zip(column).for_each(|(t, v)| *t += v) } else { *to = *column }
}

fn gather_row(table: &Matrix, row: usize, out: &mut [f32]) {
    match &table.values {
        Values::Nvfp4 { codes, scales, global } => {
            let blocks = table.cols / nvfp4::BLOCK;
            nvfp4::dequantize(
                &codes[row * blocks * 8..][..blocks * 8],
                &scales[row * blocks..][..blocks],
                *global,
                out,
            );
        }
        values => floats_at(values, row * table.cols, out),
    }
}

/// Writes or adds `w . input` to the first rows of `out`.
pub(crate) fn project(looper: &mut Loop<'_>, w: &Stack, input: Input<'_>, out: (&mut ActMemory, usize), add: bool) {
    let (memory, from) = out;
    let stride = memory.stride;
    let to = Split::new(&mut memory.values);
    looper.multiply(w, input, &|place, columns| {
        for (row, column) in (place.row..).zip(columns) {
            // SAFETY: each (row, tile) is handed out once.
            let to = unsafe { to.part(row * stride + from + place.at, place.width) };
            match to.first_chunk_mut() {
                Some(to) => store(add, column, to),
                None if add => to.iter_mut().zip(column).for_each(|(t, v)| *t += v),
                None => to.copy_from_slice(&column[..place.width]),
            }
        }
    });
}

impl Cpu {
    pub(super) fn project(&mut self, x: Operand, w: Linear, out: Act, add: bool) {
        let operand = &self.operands[x.0 as usize];
        let stack = &self.linears[w.0 as usize];
        assert!(stack.rows() == out.width() && stack.cols == operand.cols, "linear {w:?} does not fit {out:?}");
        let memory = &mut self.acts[out.id as usize];
        let input = operand.input(self.step.count(memory.rows));
        let mut looper = Self::looper(self.isa, &mut self.threads, &mut self.scratch);
        project(&mut looper, stack, input, (memory, out.from as usize), add);
    }

    /// Hands `fill(row of x, scratch)` of each row to an operand.
    fn fill_operand(&mut self, x: Act, out: Operand, fill: &(dyn Fn(&[f32], &mut [f32]) + Sync)) {
        self.settle_head(|pending| pending.x == out);
        let (source, columns) = Self::view(&self.acts, x);
        let operand = &mut self.operands[out.0 as usize];
        assert!(operand.cols == x.width() && operand.rows == source.rows, "{x:?} does not fit {out:?}");
        let rows = self.step.count(operand.rows);
        let sink = operand.sink(self.isa, rows);
        let lines = Split::new(&mut self.lines);
        for_rows(&mut self.threads, rows, x.width(), &|worker, row| {
            // SAFETY: each worker has its own line.
            let line = unsafe { &mut lines.part(worker, 1)[0][..x.width()] };
            fill(&source.values[row * source.stride..][columns.clone()], line);
            // SAFETY: each row is handed out once.
            unsafe { sink.put(row, 0, line) };
        });
    }
}

impl Ops for Cpu {
    fn begin(&mut self, batch: &Batch<'_>) -> Result<Step, DeviceError> {
        self.pending = None;
        self.step.load(batch);
        for rope in &mut self.ropes {
            rope.prepare(&self.step.positions);
        }
        Ok(Step::Run)
    }

    fn embed(&mut self, table: Table, out: Act) {
        let mut memory = take(&mut self.acts, out);
        let table = &self.tables[table.0 as usize];
        for (row, &token) in self.step.tokens.iter().enumerate() {
            let to = &mut memory.values[row * memory.stride + out.from as usize..][..out.width()];
            gather_row(table, token as usize, to);
        }
        self.acts[out.id as usize] = memory;
    }

    fn rms_norm(&mut self, x: Act, gain: Vector, eps: f32, out: Operand) {
        let gain = Arc::clone(&self.vectors[gain.0 as usize]);
        let isa = self.isa;
        assert!(gain.len() == x.width(), "a gain of {} for {x:?}", gain.len());
        self.fill_operand(x, out, &|from, to| rms_norm(isa, from, &gain, eps, to));
    }

    fn convert(&mut self, x: Act, out: Operand) {
        self.fill_operand(x, out, &|from, to| to.copy_from_slice(from));
    }

    fn linear(&mut self, x: Operand, w: Linear, out: Act) {
        if self.can_wait(x, w) {
            self.settle_head(|_| true);
            self.pending = Some(Pending { x, w, out });
        } else {
            self.project(x, w, out, false);
        }
    }

    fn linear_add(&mut self, x: Operand, w: Linear, out: Act) {
        self.project(x, w, out, true);
    }

    fn linear_gated(&mut self, x: Operand, w: Linear, limit: Option<f32>, out: Operand) {
        let mut memory = self.operands[out.0 as usize].take();
        let operand = &self.operands[x.0 as usize];
        let stack = &self.linears[w.0 as usize];
        assert!(stack.rows() == 2 * memory.cols && stack.cols == operand.cols, "gated {w:?} does not fit {out:?}");
        let rows = self.step.count(memory.rows);
        let sink = memory.sink(self.isa, rows);
        let mut looper = Self::looper(self.isa, &mut self.threads, &mut self.scratch);
        looper.gated(stack, operand.input(rows), limit, &|place, pairs| {
            for (row, pair) in (place.row..).zip(pairs) {
                // SAFETY: each (row, pair of tiles) is handed out once.
                unsafe { sink.put(row, place.at, &pair[..place.width]) };
            }
        });
        self.operands[out.0 as usize] = memory;
    }

    fn rope_append(&mut self, args: &RopeAppend) {
        by_store!(args.kv.store, append(self, args));
    }

    fn attention(&mut self, args: &Attention, out: Operand) {
        by_store!(args.kv.store, attention(self, args, out));
    }

    fn gather(&mut self, x: Act, out: Act) {
        let mut memory = take(&mut self.acts, out);
        let (source, columns) = Self::view(&self.acts, x);
        assert!(x.width() == out.width(), "{x:?} and {out:?} differ in width");
        for (to, &row) in self.step.samples.iter().enumerate() {
            let from = &source.values[row as usize * source.stride..][columns.clone()];
            memory.values[to * memory.stride + out.from as usize..][..out.width()].copy_from_slice(from);
        }
        self.acts[out.id as usize] = memory;
    }

    fn is_eager(&self) -> bool {
        true
    }

    fn host(&mut self, x: Act) -> Result<HostRows<'_>, DeviceError> {
        self.settle_head(|pending| pending.out.id == x.id);
        let memory = &mut self.acts[x.id as usize];
        let rows = self.step.count(memory.rows);
        let values = &mut memory.values[..rows * memory.stride];
        Ok(HostRows { values, stride: memory.stride, from: x.from as usize, width: x.width() })
    }

    fn read_block(&self, pool: Pool, block: u32, out: &mut [u8]) {
        out.copy_from_slice(self.pools[pool.0 as usize].unit(block));
    }

    fn write_block(&mut self, pool: Pool, block: u32, bytes: &[u8]) {
        self.pools[pool.0 as usize].unit_mut(block).copy_from_slice(bytes);
    }

    fn read_state(&self, state: State, slot: u32, out: &mut [u8]) {
        out.copy_from_slice(self.states[state.0 as usize].unit(slot));
    }

    fn write_state(&mut self, state: State, slot: u32, bytes: &[u8]) {
        self.states[state.0 as usize].unit_mut(slot).copy_from_slice(bytes);
    }
}

fn append<E: Element + Plain>(cpu: &mut Cpu, args: &RopeAppend) {
    let (dim, heads) = (args.kv.head_dim, args.q_heads + 2 * args.kv.heads);
    assert!(args.qkv.width() == heads * dim, "{heads} heads of {dim} are not {:?}", args.qkv);
    let layout = BlockLayout::new(cpu.limits.block_tokens, args.kv);
    let rope = &cpu.ropes[args.rope.0 as usize];
    let gain = |v: Vector| Arc::clone(&cpu.vectors[v.0 as usize]);
    let norm = args.norm.map(|n| (gain(n.q), gain(n.k), n.eps));
    let memory = &mut cpu.acts[args.qkv.id as usize];
    let (stride, from, width) = (memory.stride, args.qkv.from as usize, args.qkv.width());
    let values = Split::new(&mut memory.values);
    let pool = Split::new(cpu.pools[args.pool.0 as usize].lines.elements_mut::<E>());
    let step = &cpu.step;
    for_rows(&mut cpu.threads, step.tokens.len(), width, &|_, row| {
        let (block, slot) = step.slot(row, layout.tokens);
        let (cos, sin) = rope.row(row);
        let row_args = RowArgs {
            isa: cpu.isa,
            q_heads: args.q_heads,
            layout,
            cos,
            sin,
            pairs: args.pairs,
            norm: norm.as_ref().map(|(q, k, eps)| (&**q, &**k, *eps)),
            block,
            slot,
        };
        // SAFETY: rows are distinct, and so are their slots: a block belongs to one sequence while it is written.
        unsafe { append_row(row_args, values.part(row * stride + from, width), &pool) };
    });
}

fn attention<E: Element + Plain>(cpu: &mut Cpu, args: &Attention, out: Operand) {
    let kv = args.kv;
    let group = args.q_heads / kv.heads * kv.head_dim;
    assert!(args.q.width() == group * kv.heads && kv.head_dim.is_multiple_of(16), "{args:?} has an odd shape");
    let layout = BlockLayout::new(cpu.limits.block_tokens, kv);
    let (source, columns) = Cpu::view(&cpu.acts, args.q);
    let operand = &mut cpu.operands[out.0 as usize];
    assert!(operand.cols == args.q.width(), "attention {args:?} does not fit {out:?}");
    let rows = cpu.step.count(operand.rows);
    let sink = operand.sink(cpu.isa, rows);
    let pool = cpu.pools[args.pool.0 as usize].lines.elements::<E>();
    let lines = Split::new(&mut cpu.lines);
    let (step, isa) = (&cpu.step, cpu.isa);
    // A cell is written by one thread: heads that share one are done together.
    let together = if group.is_multiple_of(CELL) { 1 } else { kv.heads };
    let (units, width) = (kv.heads / together, group * together);
    // Two rows of a prompt share what they read.
    let taken = if matches!(group / kv.head_dim, 1..=3) { 2 } else { 1 };
    let chunks = rows.div_ceil(taken) * units;
    let a_chunk = chunks.div_ceil(cpu.threads.count() * 8);
    let cached = |row: usize, head: usize, next: Option<(u32, usize)>| {
        let len = step.positions[row] as usize + 1;
        Cached { pool, layout, table: step.table(row), len, head, next }
    };
    cpu.threads.run(chunks.div_ceil(a_chunk.max(1)), &|worker, chunk| {
        // SAFETY: each worker has its own line.
        let line = unsafe { &mut lines.part(worker, 1)[0] };
        let (found, line) = line.split_at_mut(2 * width);
        let (q, both) = line.split_at_mut(2 * group);
        let both = &mut both[..2 * group];
        for unit in chunk * a_chunk..chunks.min((chunk + 1) * a_chunk) {
            let (row, first) = (unit / units * taken, unit % units * together);
            let end = rows.min(row + taken);
            let two = end - row == 2 && step.follow(row, STEP);
            for head in first..first + together {
                // The next head of this row, or the first of the next rows.
                let next = if head + 1 < kv.heads { Some((row, head + 1)) } else { (end < rows).then_some((end, 0)) };
                let next = next.and_then(|(row, head)| Some((*step.table(row).first()?, head)));
                let to = (head - first) * group;
                let query =
                    |row: usize| &source.values[row * source.stride..][columns.clone()][head * group..][..group];
                if two {
                    q[..group].copy_from_slice(query(row));
                    q[group..].copy_from_slice(query(row + 1));
                    attend_two(isa, cached(row + 1, head, next), args.scale, q, both);
                    found[to..][..group].copy_from_slice(&both[..group]);
                    found[width + to..][..group].copy_from_slice(&both[group..]);
                    continue;
                }
                for row in row..end {
                    let to = &mut found[row % taken * width + to..][..group];
                    attend(isa, cached(row, head, next), args.scale, query(row), to);
                }
            }
            for (row, found) in (row..end).zip(found.chunks_exact(width)) {
                // SAFETY: each (row, unit) is handed out once.
                unsafe { sink.put(row, first * group, found) };
            }
        }
    });
}
