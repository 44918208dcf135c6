//! Compressed sparse attention: the indexer, and attention over a window and compressed rows.

use super::moe::PicksAt;
use super::rope::{RopeRows, StepAt};
use super::sparse_rows::{RingPlace, RowsPlace};
use crate::cuda::call::{Address, Call, Floats, args};

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
        from.store.kind,
        from.store.tail,
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
    /// Finished rows of this step's tokens.
    pub rows: Floats,
    /// Those of earlier tokens.
    pub earlier: RingPlace,
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
    let nothing = RowsPlace { pool: Address::NULL, ratio: 1, store: a.earlier.store, block_tokens: 0 };
    let (far, picks) = a.far.unwrap_or((nothing, None));
    let (picks, k) = picks.map_or((Address::NULL, 0), |p| (p.ids, p.k));
    let room = a.window + a.most_far;
    let args = args![
        a.out.at,
        a.out.stride,
        a.q.at,
        a.q.stride,
        dim,
        a.scale,
        a.window,
        a.rows.at,
        a.rows.stride,
        a.earlier.pool,
        a.earlier.store.kind,
        a.earlier.store.tail,
        a.earlier.ring,
        far.pool,
        far.store.kind,
        far.store.tail,
        far.ratio,
        picks,
        k,
        a.sinks,
        a.rope.cosines,
        a.rope.sines,
        a.rope.frequencies,
        a.earlier.block_tokens,
        room,
        step.positions,
        step.starts,
        step.tables,
        step.block_tables,
        step.rows.at,
    ];
    let grid = [step.rows.most, a.heads, 1];
    Call { kernel: "sparse_attention", grid, block: 128, shared: (room + dim) * 4, args }
}
