//! Compressed sparse attention.

use super::moe::PicksAt;
use super::rope::{RopeRows, StepAt};
use crate::cuda::call::{Address, Call, Floats, RowCount, args};

/// A pool of bf16 rows, one for each `ratio` tokens, in KV blocks of `block_tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsPlace {
    /// The rows.
    pub pool: Address,
    /// Tokens of a row.
    pub ratio: u32,
    /// Tokens of a block.
    pub block_tokens: u32,
}

/// Normalises (with an epsilon) and rotates the end of each of `count` heads.
#[must_use]
pub fn rotate_tails(heads: Floats, count: u32, norm_eps: Option<f32>, rope: RopeRows, rows: RowCount) -> Call {
    let args = args![
        heads.at,
        heads.stride,
        count,
        heads.width / count,
        norm_eps.unwrap_or(-1.0),
        rope.cosines,
        rope.sines,
        rope.frequencies,
        rows.at,
    ];
    Call { kernel: "rotate_tails", grid: [rows.most, count.div_ceil(4), 1], block: 128, shared: 0, args }
}

/// Normalises rows, rotates their ends and stores them.
#[must_use]
pub fn append_rows(x: Floats, (gain, eps): (Address, f32), rope: RopeRows, to: RowsPlace, step: StepAt) -> Call {
    let args = args![
        x.at,
        x.stride,
        x.width,
        gain,
        eps,
        rope.cosines,
        rope.sines,
        rope.frequencies,
        to.pool,
        to.block_tokens,
        step.positions,
        step.tables,
        step.block_tables,
        step.rows.at,
    ];
    Call { kernel: "append_rows", grid: [step.rows.most, 1, 1], block: 256, shared: 0, args }
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
    /// Pending state, by block.
    pub states: Address,
    /// Room for a state of each sequence.
    pub begun: Address,
    /// Where finished rows go.
    pub to: RowsPlace,
}

/// The two launches of the compressor: copying the states that sequences continue, then the tokens.
#[must_use]
pub fn compress(c: &CompressAt, extents: ExtentsAt) -> [Call; 2] {
    let parts = if c.overlap { 2u32 } else { 1 };
    let begin = args![
        c.begun,
        c.states,
        c.width,
        parts,
        c.to.block_tokens,
        extents.list,
        extents.block_tables,
        extents.count.at,
    ];
    let tokens = args![
        c.begun,
        c.states,
        c.to.pool,
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

/// Scores of the rows that the indexer chooses from: `room` numbers a row of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoresAt {
    /// f32.
    pub at: Address,
    /// Most visible rows.
    pub room: u32,
}

/// The indexer: scores visible rows (`weights` has a column a head), then keeps the best.
#[must_use]
pub fn select(
    q: Floats,
    weights: Floats,
    factor: f32,
    from: RowsPlace,
    (scores, out): (ScoresAt, PicksAt),
    step: StepAt,
) -> [Call; 2] {
    let score = args![
        scores.at,
        scores.room,
        q.at,
        q.stride,
        weights.at,
        weights.stride,
        weights.width,
        q.width / weights.width,
        factor,
        from.pool,
        from.ratio,
        from.block_tokens,
        step.positions,
        step.tables,
        step.block_tables,
        step.rows.at,
    ];
    let top = args![out.ids, out.k, scores.at, scores.room, from.ratio, step.positions, step.rows.at];
    let grid = [step.rows.most, scores.room.div_ceil(64).clamp(1, 64), 1];
    [
        Call { kernel: "index_scores", grid, block: 128, shared: 0, args: score },
        Call { kernel: "select_top", grid: [step.rows.most, 1, 1], block: 256, shared: 0, args: top },
    ]
}

/// Arguments of [`sparse_attention`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseAt {
    /// Rotated queries, heads side by side.
    pub q: Floats,
    /// Heads.
    pub heads: u32,
    /// Multiplies scores.
    pub scale: f32,
    /// Tokens seen uncompressed.
    pub window: u32,
    /// Uncompressed rows.
    pub near: RowsPlace,
    /// Compressed rows and which of them, if any are seen.
    pub far: Option<(RowsPlace, Option<PicksAt>)>,
    /// Most compressed rows that a row sees.
    pub most_far: u32,
    /// A score for each head that has no value.
    pub sinks: Address,
    /// Angles, which are taken back from results.
    pub rope: RopeRows,
    /// Results.
    pub out: Floats,
}

/// Attention over the window and compressed rows.
#[must_use]
pub fn sparse_attention(a: &SparseAt, step: StepAt) -> Call {
    let dim = a.q.width / a.heads;
    let (far, ratio, picks, k) = match a.far {
        None => (Address::NULL, 1, Address::NULL, 0),
        Some((rows, None)) => (rows.pool, rows.ratio, Address::NULL, 0),
        Some((rows, Some(p))) => (rows.pool, rows.ratio, p.ids, p.k),
    };
    let room = a.window + a.most_far;
    let args = args![
        a.out.at,
        a.out.stride,
        a.q.at,
        a.q.stride,
        dim,
        a.scale,
        a.window,
        a.near.pool,
        far,
        ratio,
        picks,
        k,
        a.sinks,
        a.rope.cosines,
        a.rope.sines,
        a.rope.frequencies,
        a.near.block_tokens,
        room,
        step.positions,
        step.tables,
        step.block_tables,
        step.rows.at,
    ];
    let grid = [step.rows.most, a.heads, 1];
    Call { kernel: "sparse_attention", grid, block: 128, shared: (room + dim) * 4, args }
}
