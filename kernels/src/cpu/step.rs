//! The present step's metadata, in memory that is reused from step to step.

use crate::batch::{Batch, Extent, Limits};
use crate::ops::Rows;

/// See [`Batch`]; with what operations look up by row.
#[derive(Debug)]
pub(crate) struct StepRows {
    pub(crate) tokens: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) samples: Vec<u32>,
    extents: Vec<Extent>,
    extent_of_row: Vec<u32>,
    tables: Vec<u32>,
}

impl StepRows {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            tokens: Vec::with_capacity(limits.rows),
            positions: Vec::with_capacity(limits.rows),
            samples: Vec::with_capacity(limits.samples),
            extents: Vec::with_capacity(limits.rows),
            extent_of_row: Vec::with_capacity(limits.rows),
            tables: Vec::with_capacity(limits.table_entries),
        }
    }

    pub(crate) fn load(&mut self, batch: &Batch<'_>) {
        let Self { tokens, positions, samples, extents, extent_of_row, tables } = self;
        for list in [&mut *tokens, &mut *positions, &mut *samples, &mut *extent_of_row, &mut *tables] {
            list.clear();
        }
        extents.clear();
        tokens.extend_from_slice(batch.tokens);
        samples.extend_from_slice(batch.samples);
        extents.extend_from_slice(batch.extents);
        tables.extend_from_slice(batch.block_tables);
        for (i, e) in extents.iter().enumerate() {
            positions.extend(e.start..e.start + e.rows);
            extent_of_row.extend(std::iter::repeat_n(i as u32, e.rows as usize));
        }
        assert!(positions.len() == tokens.len(), "extents cover {} of {} rows", positions.len(), tokens.len());
    }

    pub(crate) fn count(&self, rows: Rows) -> usize {
        match rows {
            Rows::Batch => self.tokens.len(),
            Rows::Samples => self.samples.len(),
        }
    }

    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The rows of a row's sequence.
    pub(crate) fn extent(&self, row: usize) -> &Extent {
        &self.extents[self.extent_of_row[row] as usize]
    }

    /// Whether the next row is of the same sequence and sees equally many steps of `step` positions.
    pub(crate) fn follow(&self, row: usize, step: usize) -> bool {
        self.extent_of_row[row] == self.extent_of_row[row + 1]
            && self.positions[row] as usize / step == self.positions[row + 1] as usize / step
    }

    /// The block table of a row's sequence.
    pub(crate) fn table(&self, row: usize) -> &[u32] {
        let e = self.extent(row);
        &self.tables[e.table as usize..][..e.table_len as usize]
    }

    /// Block and slot of a row's own KV.
    pub(crate) fn slot(&self, row: usize, block_tokens: usize) -> (u32, usize) {
        let position = self.positions[row] as usize;
        (self.table(row)[position / block_tokens], position % block_tokens)
    }
}
