//! Mixtures of experts: choosing, listing, the experts' products, adding up.

use super::gemm::{Finish, WeightsAt, expert_names};
use crate::cuda::call::{Address, Call, Floats, Inputs, RowCount, args};
use crate::moe::Score;

/// Choices on the device: `k` numbers and weights a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PicksAt {
    /// `u32`; all ones is no choice.
    pub ids: Address,
    /// f32.
    pub weights: Address,
    /// Choices of a row.
    pub k: u32,
}

/// How logits become a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteBy {
    /// Logits to scores.
    pub score: Score,
    /// Added to scores for choosing only, or null.
    pub bias: Address,
    /// Experts by token id, `k` for each, or null.
    pub table: Address,
    /// Token of each row.
    pub tokens: Address,
    /// Weights of the chosen are divided by their sum.
    pub normalize: bool,
    /// Then multiplied by this.
    pub factor: f32,
}

/// Most experts of a layer.
pub const MOST_EXPERTS: u32 = 1024;

/// Chooses experts.
///
/// # Panics
/// If there are more experts than [`MOST_EXPERTS`].
#[must_use]
pub fn route(logits: Floats, by: RouteBy, out: PicksAt, rows: RowCount) -> Call {
    assert!(logits.width <= MOST_EXPERTS, "{} experts; at most {MOST_EXPERTS} are possible", logits.width);
    let args = args![
        out.ids,
        out.weights,
        out.k,
        logits.at,
        logits.stride,
        logits.width,
        u32::from(by.score == Score::Softmax),
        by.bias,
        by.table,
        u32::from(by.normalize),
        by.factor,
        by.tokens,
        rows.at,
    ];
    Call { kernel: "route", grid: [rows.most, 1, 1], block: 32, shared: 0, args }
}

/// For each expert the entries (row times `k` plus place) that chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListsAt {
    /// `u32`, room for `room` entries an expert.
    pub lists: Address,
    /// A `u32` an expert.
    pub counts: Address,
    /// Entries that an expert may have: the most rows of a step.
    pub room: u32,
    /// Experts.
    pub experts: u32,
}

/// Lists each expert's entries.
#[must_use]
pub fn list_experts(picks: PicksAt, out: ListsAt, rows: RowCount) -> Call {
    let args = args![out.lists, out.counts, out.room, picks.ids, picks.k, rows.at];
    Call { kernel: "list_experts", grid: [out.experts, 1, 1], block: 32, shared: 0, args }
}

/// Packed weights of all experts, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertsAt {
    /// The first expert's.
    pub first: WeightsAt,
    /// Bytes of codes from one expert to the next.
    pub code_stride: u32,
    /// Bytes of scales.
    pub scale_stride: u32,
    /// Numbers of factors.
    pub factor_stride: u32,
}

/// Each expert's product with the rows of its entries. `shared` entries read one row of input: `k` where those are the rows of the step,
/// 1 where they are entries themselves. Results are rows by entry. Finishes are `Store` and `Gated`.
///
/// # Panics
/// With `Finish::Add`, which several experts would do to one row.
#[must_use]
pub fn gemm_experts(a: Inputs, w: ExpertsAt, finish: Finish, lists: ListsAt, shared: u32, rows: RowCount) -> Call {
    let (which, mut args) = finish.args();
    assert!(which != 1, "experts store their results; combine_experts adds them up in order");
    args.extend(args![
        a.halves,
        a.half_stride,
        w.first.codes,
        w.first.scales,
        w.first.alpha,
        w.code_stride,
        w.scale_stride,
        w.factor_stride,
        w.first.columns,
        w.first.steps,
        lists.lists,
        lists.counts,
        lists.room,
        shared,
    ]);
    let kernel = expert_names(w.first.format)[which / 2];
    let tiles = w.first.tiles(which == 2);
    Call { kernel, grid: [tiles, lists.experts, rows.most.div_ceil(16)], block: 256, shared: 0, args }
}

/// Adds the weighted results of each row's choices, rows of `out.width` by entry, to `out`.
#[must_use]
pub fn combine_experts(results: Address, picks: PicksAt, out: Floats, rows: RowCount) -> Call {
    let args = args![out.at, out.stride, out.width, results, picks.ids, picks.weights, picks.k, rows.at];
    let block = out.width.next_multiple_of(32).min(256);
    Call { kernel: "combine_experts", grid: [rows.most, 1, 1], block, shared: 0, args }
}
