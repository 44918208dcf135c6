//! Builds one step's plan, sequence by sequence.

use crate::exec::{Plan, PlanSequence};
use crate::kv::{BlockTable, Slot};
use crate::sequence::Sequence;

/// A plan being filled, within a budget of rows and of tokens drawn.
#[derive(Debug, Default)]
pub(crate) struct PlanBuilder {
    plan: Plan,
    budget: usize,
    samples: usize,
}

impl PlanBuilder {
    /// Starts a new plan; buffers are reused.
    pub(crate) fn begin(&mut self, budget: usize, most_samples: usize) {
        self.plan.clear();
        (self.budget, self.samples) = (budget, most_samples);
    }

    /// Rows that still fit.
    pub(crate) fn rows_left(&self) -> usize {
        self.budget - self.plan.tokens.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plan.sequences.is_empty()
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Tokens that may still be drawn.
    pub(crate) fn samples_left(&self) -> usize {
        self.samples - self.plan.samples.len()
    }

    /// Adds the next `rows` tokens of a sequence. If these are its last known ones, the token after them is drawn, and
    /// `draft` is added and checked: the token after each of its tokens is drawn too.
    pub(crate) fn push(&mut self, seq: &Sequence, (table, slot): (&BlockTable, &Slot), rows: usize, draft: &[u32]) {
        let readable = table.readable();
        let start = readable.tokens();
        let known = start + rows;
        debug_assert!(draft.is_empty() || known == seq.tokens.len(), "a draft continues the whole text");
        let end = known + draft.len();
        let first_row = self.plan.tokens.len() as u32;
        let first_entry = self.plan.block_tables.len() as u32;
        self.plan.tokens.extend_from_slice(&seq.tokens[start..known]);
        self.plan.tokens.extend_from_slice(draft);
        self.plan.block_tables.extend(readable.ids(end));
        self.plan.sequences.push(PlanSequence {
            row: first_row,
            rows: (rows + draft.len()) as u32,
            start: start as u32,
            table: first_entry,
            table_len: self.plan.block_tables.len() as u32 - first_entry,
            slot: slot.id(),
        });
        if known == seq.tokens.len() {
            let last_known = first_row + rows as u32 - 1;
            let samples = (0..=draft.len()).map(|n| seq.sample_row(last_known + n as u32, &draft[..n]));
            self.plan.samples.extend(samples);
        }
    }
}
