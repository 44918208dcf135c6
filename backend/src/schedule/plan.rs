//! Builds one step's plan, sequence by sequence.

use crate::exec::{Plan, PlanSequence};
use crate::kv::{BlockTable, Slot};
use crate::sequence::Sequence;

/// A plan being filled, within a budget of rows.
#[derive(Debug, Default)]
pub(crate) struct PlanBuilder {
    plan: Plan,
    budget: usize,
}

impl PlanBuilder {
    /// Starts a new plan; buffers are reused.
    pub(crate) fn begin(&mut self, budget: usize) {
        let Plan { tokens, sequences, block_tables, samples } = &mut self.plan;
        tokens.clear();
        sequences.clear();
        block_tables.clear();
        samples.clear();
        self.budget = budget;
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

    /// Adds the next `rows` tokens of a sequence. If these are its last known ones, the token after them is drawn.
    pub(crate) fn push(&mut self, seq: &Sequence, table: &BlockTable, slot: &Slot, rows: usize) {
        let readable = table.readable();
        let start = readable.tokens();
        let end = start + rows;
        let first_row = self.plan.tokens.len() as u32;
        let first_entry = self.plan.block_tables.len() as u32;
        self.plan.tokens.extend_from_slice(&seq.tokens[start..end]);
        self.plan.block_tables.extend(readable.ids(end));
        self.plan.sequences.push(PlanSequence {
            row: first_row,
            rows: rows as u32,
            start: start as u32,
            table: first_entry,
            table_len: self.plan.block_tables.len() as u32 - first_entry,
            slot: slot.id(),
        });
        if end == seq.tokens.len() {
            self.plan.samples.push(seq.sample_row(first_row + rows as u32 - 1));
        }
    }
}
