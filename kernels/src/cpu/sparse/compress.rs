//! The compressor: a running softmax per channel, token by token, so that chunks of any size give the same bits.

use super::rows::{PoolRows, rotate_tail};
use crate::batch::Extent;
use crate::cpu::isa::Isa;
use crate::cpu::math::exp;
use crate::cpu::norm::rms_norm_in_place;
use crate::cpu::rope::RopeTable;
use crate::cpu::shared::Split;
use crate::cpu::step::StepRows;
use crate::cpu::{ActMemory, Cpu};
use crate::ops::Act;
use crate::sparse::Compress;

/// Per channel: running maximum, sum of exponentials, weighted sum of values; all groups' channels of one kind together.
struct Pending<'a> {
    most: &'a mut [f32],
    sum: &'a mut [f32],
    total: &'a mut [f32],
}

impl<'a> Pending<'a> {
    fn of(state: &'a mut [f32], width: usize) -> Self {
        let (most, rest) = state.split_at_mut(width);
        let (sum, total) = rest.split_at_mut(width);
        Self { most, sum, total }
    }

    fn clear(&mut self) {
        self.most.fill(f32::NEG_INFINITY);
        self.sum.fill(0.0);
        self.total.fill(0.0);
    }

    fn add(&mut self, scores: &[f32], place: &[f32], values: &[f32]) {
        for i in 0..self.most.len() {
            let score = scores[i] + place[i];
            let most = if score > self.most[i] { score } else { self.most[i] };
            let (fade, weight) = (exp(self.most[i] - most), exp(score - most));
            self.sum[i] = self.sum[i] * fade + weight;
            self.total[i] = self.total[i] * fade + weight * values[i];
            self.most[i] = most;
        }
    }
}

fn row_of(memory: &ActMemory, act: Act, row: usize) -> &[f32] {
    &memory.values[row * memory.stride + act.from as usize..][..act.width()]
}

/// What every token of the step goes through.
struct Compressor<'a> {
    isa: Isa,
    args: &'a Compress,
    width: usize,
    /// 2 with overlap: the next group's channels, then the token's own.
    parts: usize,
    place: &'a [f32],
    gain: &'a [f32],
    rope: &'a RopeTable,
}

impl Compressor<'_> {
    fn state_len(&self) -> usize {
        3 * self.width * self.parts
    }

    /// The state that a sequence's rows continue: of the block that holds the token before them.
    fn begin(&self, states: &[f32], step: &StepRows, e: &Extent, block_tokens: usize) -> Vec<f32> {
        let n = self.state_len();
        if let Some(last) = (e.start as usize).checked_sub(1) {
            return states[self.state_at(step.table(e.row as usize), last, block_tokens)..][..n].to_vec();
        }
        let mut empty = vec![0f32; n];
        empty.chunks_exact_mut(3 * self.width).for_each(|s| Pending::of(s, self.width).clear());
        empty
    }

    /// First number of the state after a position.
    fn state_at(&self, table: &[u32], position: usize, block_tokens: usize) -> usize {
        let block = table[position / block_tokens] as usize;
        (block * self.args.slots + position % self.args.slots) * self.state_len()
    }

    /// Takes a token in; gives the row of a group that it completes.
    fn add(&self, state: &mut [f32], position: usize, values: &[f32], scores: &[f32]) -> Option<Vec<f32>> {
        let (width, within) = (self.width, position % self.args.ratio);
        let place = &self.place[within * width * self.parts..][..width * self.parts];
        let own = (self.parts - 1) * width;
        let (current, next) = state.split_at_mut(3 * width);
        Pending::of(current, width).add(&scores[own..], &place[own..], &values[own..]);
        if self.args.overlap {
            Pending::of(next, width).add(&scores[..width], &place[..width], &values[..width]);
        }
        if within + 1 < self.args.ratio {
            return None;
        }
        let done = Pending::of(current, width);
        let mut row: Vec<f32> = done.total.iter().zip(&*done.sum).map(|(t, s)| t / s).collect();
        rms_norm_in_place(self.isa, &mut row, self.gain, self.args.eps);
        let (cos, sin) = self.rope.angles((position + 1 - self.args.ratio) as u32);
        rotate_tail(self.isa, &mut row, &cos, &sin);
        self.args.rounding.apply(&mut row);
        if self.args.overlap {
            current.copy_from_slice(next);
            Pending::of(next, width).clear();
        } else {
            Pending::of(current, width).clear();
        }
        Some(row)
    }
}

pub(super) fn compress(cpu: &mut Cpu, args: &Compress) {
    let parts = if args.overlap { 2 } else { 1 };
    let width = args.values.width() / parts;
    let (place, gain) = (&*cpu.vectors[args.place.0 as usize], &*cpu.vectors[args.gain.0 as usize]);
    let block_tokens = cpu.limits.block_tokens;
    let fits = args.scores.width() == width * parts && place.len() == args.ratio * width * parts;
    assert!(fits && gain.len() == width && block_tokens.is_multiple_of(args.ratio), "{args:?} does not fit together");
    let c = Compressor { isa: cpu.isa, args, width, parts, place, gain, rope: &cpu.ropes[args.rope.0 as usize] };
    let (step, n) = (&cpu.step, c.state_len());
    let pools = [args.state.0 as usize, args.pool.0 as usize];
    let [state_pool, pool] = cpu.pools.get_disjoint_mut(pools).expect("state and rows are two pools");
    // Read before anything is written: sequences may share the block that their common prefix ends in.
    let begin = |e| c.begin(state_pool.lines.elements(), step, e, block_tokens);
    let begun: Vec<Vec<f32>> = step.extents().iter().map(begin).collect();
    let states = Split::new(state_pool.lines.elements_mut::<f32>());
    let rows = Split::new(pool.lines.bytes_mut());
    let layout = PoolRows::new(args.store, width, block_tokens / args.ratio);
    let (values, scores) = (&cpu.acts[args.values.id as usize], &cpu.acts[args.scores.id as usize]);
    cpu.threads.run(step.extents().len(), &|_, sequence| {
        let e = &step.extents()[sequence];
        let table = step.table(e.row as usize);
        let mut state = begun[sequence].clone();
        for i in 0..e.rows as usize {
            let (row, position) = (e.row as usize + i, e.start as usize + i);
            let (v, s) = (row_of(values, args.values, row), row_of(scores, args.scores, row));
            if let Some(done) = c.add(&mut state, position, v, s) {
                // SAFETY: a row of a block that this sequence alone writes.
                let to = unsafe { rows.part(layout.at(table, position / args.ratio), layout.bytes) };
                args.store.write(&done, to);
            }
            // The last position of the block, or of the step if that is in the same block.
            let last = (position / block_tokens * block_tokens + block_tokens).min((e.start + e.rows) as usize) - 1;
            if last - position < args.slots {
                // SAFETY: the block holds a token that this sequence writes, so it is this sequence's alone.
                unsafe { states.part(c.state_at(table, position, block_tokens), n) }.copy_from_slice(&state);
            }
        }
    });
}
