//! One transfer at the source: which of its pages were announced, and where they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kv::{BlockTable, Ready};
use crate::sequence::{Prefilled, Prefilling, Resident};
use crate::transfer::slices::Slices;

/// See the file's head. Its blocks are pinned by being owned here, or by the sequence while it is computed.
#[derive(Debug)]
pub(super) struct Transfer {
    cancelled: Arc<AtomicBool>,
    /// Full blocks of a sequence that is still being computed, all of whose pages were announced.
    full: Vec<Ready>,
    /// Behind them, while a step runs: the blocks that it completes, and how many slices of each were announced.
    ahead: (Vec<u32>, usize),
    done: Option<Prefilled<Resident>>,
    /// The last page that the sink copies from its block.
    pub(super) pinned: Option<u64>,
}

impl Transfer {
    pub(super) fn new(cancelled: Arc<AtomicBool>) -> Self {
        Self { cancelled, full: Vec::new(), ahead: (Vec::new(), 0), done: None, pinned: None }
    }

    /// The device block of an announced page's block.
    pub(super) fn block(&self, index: usize) -> Option<u32> {
        let ahead = || self.ahead.0.get(index.checked_sub(self.full.len())?).copied();
        self.full.get(index).map(Ready::id).or_else(ahead).or_else(|| {
            let readable = self.done()?.kv.table.readable();
            readable.ids(readable.tokens()).nth(index)
        })
    }

    pub(super) fn done(&self) -> Option<&Prefilled<Resident>> {
        self.done.as_ref()
    }

    /// Nobody wants it any more.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// A step that computes the next `rows` tokens has filled the first `done` slices of each of its blocks. The pages that can be sent
    /// now. A block that the step leaves unfinished waits for a later one, unless the sequence ends in it.
    pub(super) fn layers_done(
        &mut self,
        Prefilling { seq, table, .. }: &Prefilling,
        rows: usize,
        done: usize,
        slices: &Slices,
    ) -> Vec<u32> {
        let (known, upto) = (self.full.len(), table.filled() + rows);
        if done <= self.ahead.1 {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.ahead.1, done);
        if before == 0 {
            let blocks = table.blocks_of(upto, upto == seq.tokens.len());
            self.ahead.0 = table.readable().ids(upto).take(blocks).skip(known).collect();
        }
        let blocks = known..known + self.ahead.0.len();
        blocks.flat_map(|block| (before..done).map(move |slice| slices.page(block, slice))).collect()
    }

    /// A step is over. The pages that can be sent now.
    pub(super) fn step_done(&mut self, table: &BlockTable, slices: &Slices) -> Vec<u32> {
        let from = self.full.len();
        self.full.extend(table.full(from));
        self.rest(from..self.full.len(), slices)
    }

    /// All is computed. The pages that can be sent now.
    pub(super) fn complete(&mut self, sequence: Prefilled<Resident>, slices: &Slices) -> Vec<u32> {
        let readable = sequence.kv.table.readable();
        let blocks = self.full.len()..readable.ids(readable.tokens()).count();
        self.done = Some(sequence);
        self.rest(blocks, slices)
    }

    /// The pages of these blocks that the last step's layers did not bring.
    fn rest(&mut self, blocks: std::ops::Range<usize>, slices: &Slices) -> Vec<u32> {
        let (ahead, known) = std::mem::take(&mut self.ahead);
        let ahead = blocks.start..blocks.start + ahead.len();
        let first = |block| if ahead.contains(&block) { known } else { 0 };
        blocks.flat_map(|block| (first(block)..slices.count()).map(move |slice| slices.page(block, slice))).collect()
    }
}
