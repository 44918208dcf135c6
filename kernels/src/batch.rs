//! A step's metadata: uploaded once to device-owned buffers, which every operation of the step refers to.

/// The rows of one sequence: consecutive tokens that continue what its blocks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First row.
    pub row: u32,
    /// Number of rows.
    pub rows: u32,
    /// Position of the first row: the number of tokens that are already cached.
    pub start: u32,
    /// First entry of the block table in [`Batch::block_tables`].
    pub table: u32,
    /// Entries of the block table.
    pub table_len: u32,
    /// State slot.
    pub slot: u32,
}

/// Which of a model's sequences of operations a step calls. A device that replays recordings keeps one for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pass {
    /// All layers.
    #[default]
    Model,
    /// The drafting layer.
    Draft,
}

/// What a step works on. Rows are in sequence order, and the extents cover them all.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Input token of each row.
    pub tokens: &'a [u32],
    /// Sequences, in row order.
    pub extents: &'a [Extent],
    /// All block tables, one after another.
    pub block_tables: &'a [u32],
    /// Rows that [`crate::ops::Rows::Samples`] stands for, ascending.
    pub samples: &'a [u32],
    /// What is called after `begin`.
    pub pass: Pass,
}

/// The sizes a device is built for; no step may exceed them, so that nothing is allocated while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most rows of a step.
    pub rows: usize,
    /// Most sampled rows of a step.
    pub samples: usize,
    /// Most block-table entries of a step, all sequences together.
    pub table_entries: usize,
    /// Tokens in a KV block.
    pub block_tokens: usize,
    /// KV blocks in every pool.
    pub blocks: usize,
    /// State slots.
    pub slots: usize,
}
