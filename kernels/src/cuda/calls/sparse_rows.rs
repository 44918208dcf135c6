//! Rows of compressed sparse attention: their formats, finishing and keeping them, the compressor.

use super::rope::{RopeRows, StepAt};
use crate::cuda::call::{Address, Call, Floats, RowCount, args};
use crate::ops::KvStore;
use crate::rows::{Rounding, RowStore};

/// Number format and end of rows, as kernels take them. Half precision has no kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCode {
    pub(super) kind: u32,
    pub(super) tail: u32,
}

impl StoreCode {
    /// The code of a format that has kernels.
    #[must_use]
    pub fn new(store: RowStore) -> Option<Self> {
        let (kind, tail) = match store {
            RowStore::Plain(KvStore::F32) => (0, 0),
            RowStore::Plain(KvStore::Bf16) => (1, 0),
            RowStore::Fp8 { tail } => (2, tail as u32),
            RowStore::Fp8Row => (3, 0),
            RowStore::Fp4 => (4, 0),
            RowStore::Plain(KvStore::F16) => return None,
        };
        Some(Self { kind, tail })
    }
}

fn rounding_code(rounding: Rounding) -> (u32, u32) {
    match rounding {
        Rounding::Exact => (0, 0),
        Rounding::Fp8 { tail } => (1, tail as u32),
        Rounding::Hadamard => (2, 0),
        Rounding::HadamardFp4 => (3, 0),
    }
}

/// A pool of rows, one for each `ratio` tokens, in KV blocks of `block_tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsPlace {
    /// The rows.
    pub pool: Address,
    /// Their number format.
    pub store: StoreCode,
    /// Tokens of a row.
    pub ratio: u32,
    /// Tokens of a block.
    pub block_tokens: u32,
}

/// A pool of the rows of each block's last tokens; see [`crate::sparse::WindowPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// The rows.
    pub pool: Address,
    /// Their number format.
    pub store: StoreCode,
    /// Rows of a block.
    pub ring: u32,
    /// Tokens of a block.
    pub block_tokens: u32,
}

/// Normalises (with an epsilon), rotates the end of, and rounds each of `count` heads.
#[must_use]
pub fn rotate_tails(
    heads: Floats,
    count: u32,
    norm_eps: Option<f32>,
    rope: RopeRows,
    rounding: Rounding,
    rows: RowCount,
) -> Call {
    let (kind, tail) = rounding_code(rounding);
    let args = args![
        heads.at,
        heads.stride,
        count,
        heads.width / count,
        norm_eps.unwrap_or(-1.0),
        rope.cosines,
        rope.sines,
        rope.frequencies,
        kind,
        tail,
        rows.at,
    ];
    Call { kernel: "rotate_tails", grid: [rows.most, count.div_ceil(4), 1], block: 128, shared: 0, args }
}

/// Normalises rows, rotates their ends, rounds them, and makes of them what a pool of `store` would give back.
#[must_use]
pub fn finish_rows(
    x: Floats,
    (gain, eps): (Address, f32),
    rope: RopeRows,
    (rounding, store): (Rounding, StoreCode),
    rows: RowCount,
) -> Call {
    let (kind, tail) = rounding_code(rounding);
    let args = args![
        x.at,
        x.stride,
        x.width,
        gain,
        eps,
        rope.cosines,
        rope.sines,
        rope.frequencies,
        kind,
        tail,
        store.kind,
        store.tail,
        rows.at,
    ];
    Call { kernel: "finish_rows", grid: [rows.most, 1, 1], block: 256, shared: 0, args }
}

/// Stores finished rows of the step's tokens, in each block those of its last tokens.
#[must_use]
pub fn keep_rows(x: Floats, to: RingPlace, step: StepAt) -> Call {
    let args = args![
        to.pool,
        to.store.kind,
        to.store.tail,
        to.ring,
        x.at,
        x.stride,
        x.width,
        to.block_tokens,
        step.positions,
        step.ends,
        step.tables,
        step.block_tables,
        step.rows.at,
    ];
    Call { kernel: "keep_rows", grid: [step.rows.most, 1, 1], block: 128, shared: 0, args }
}

/// A step's sequences on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentsAt {
    /// Four `u32` each: first row, rows, position of the first, first entry of the block table.
    pub list: Address,
    /// How many.
    pub count: RowCount,
    /// All block tables.
    pub block_tables: Address,
}

/// Arguments of [`compress`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompressAt {
    /// Values.
    pub values: Floats,
    /// Scores.
    pub scores: Floats,
    /// Added to scores by a token's place in its group.
    pub place: Address,
    /// Width of a finished row.
    pub width: u32,
    /// A group also sees the one before it.
    pub overlap: bool,
    /// Gain of the norm.
    pub gain: Address,
    /// Added to the mean square.
    pub eps: f32,
    /// For each group that the step completes, cosines then sines at its first token.
    pub angles: Address,
    /// Cosines of a group.
    pub frequencies: u32,
    /// For each sequence, its first group in `angles`.
    pub first_group: Address,
    /// Pending states, `slots` of each block.
    pub states: Address,
    /// See [`crate::sparse::Compress::slots`].
    pub slots: u32,
    /// Room for a state of each sequence.
    pub begun: Address,
    /// Of finished rows.
    pub rounding: Rounding,
    /// Where they go.
    pub to: RowsPlace,
}

/// The two launches of the compressor: copying the states that sequences continue, then the tokens.
#[must_use]
pub fn compress(c: &CompressAt, extents: ExtentsAt) -> [Call; 2] {
    let parts = if c.overlap { 2u32 } else { 1 };
    let begin = args![
        c.begun,
        c.states,
        c.slots,
        c.width,
        parts,
        c.to.block_tokens,
        extents.list,
        extents.block_tables,
        extents.count.at,
    ];
    let (rounding, rounding_tail) = rounding_code(c.rounding);
    let tokens = args![
        c.begun,
        c.states,
        c.slots,
        c.to.pool,
        c.to.store.kind,
        c.to.store.tail,
        rounding,
        rounding_tail,
        c.values.at,
        c.values.stride,
        c.scores.at,
        c.scores.stride,
        c.place,
        c.to.ratio,
        c.width,
        parts,
        c.gain,
        c.eps,
        c.angles,
        c.frequencies,
        c.first_group,
        c.to.block_tokens,
        extents.list,
        extents.block_tables,
        extents.count.at,
    ];
    let grid = [extents.count.most, 1, 1];
    let block = c.width.next_multiple_of(32).min(512);
    [
        Call { kernel: "compress_begin", grid, block: 256, shared: 0, args: begin },
        Call { kernel: "compress", grid, block, shared: c.width * 4, args: tokens },
    ]
}
