//! Operations of compressed sparse attention (DeepSeek-V4): one row per token serves as key and value; older tokens are seen through
//! compressed rows, of which an indexer selects some. Part of the specification, like [`crate::ops`].
//!
//! Rows are rotated at their end only. A compressor's pending state lives in the KV block of the last token that it has
//! seen, so blocks are all there is to share, move and free. The window's rows live there too, in a ring: a block keeps those of
//! its last tokens only, which is all that a continuation from its end can see.

use crate::moe::Picks;
use crate::ops::{Act, Pool, Rope, Vector};
use crate::rows::{Rounding, RowStore};

/// Arguments of [`SparseOps::rotate_tails`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotateTails {
    /// Heads side by side, changed in place.
    pub heads: Act,
    /// Number of heads.
    pub count: usize,
    /// Divide each head by its root mean square first; the number is added to the mean square.
    pub norm_eps: Option<f32>,
    /// Angles at the row's position, for the last `2 * frequencies` numbers.
    pub rope: Rope,
    /// Of each rotated head.
    pub rounding: Rounding,
}

/// Arguments of [`SparseOps::finish_rows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinishRows {
    /// One row per token, changed in place.
    pub rows: Act,
    /// RMS norm.
    pub gain: Vector,
    /// Added to the mean square.
    pub eps: f32,
    /// Angles.
    pub rope: Rope,
    /// Of the finished row.
    pub rounding: Rounding,
    /// The format that the row will be kept in.
    pub store: RowStore,
}

/// Rows of the last tokens in a pool: a ring in each block. The row of position `p` is number `p % block_tokens % ring` of its
/// block; a block that is full holds its last `ring` tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowPool {
    /// One unit of `ring` rows per block.
    pub pool: Pool,
    /// Rows in a block: for attention at least the window, or all tokens of a block.
    pub ring: usize,
    /// Number format of the rows.
    pub store: RowStore,
}

/// Arguments of [`SparseOps::compress`]. `w` is the width of a compressed row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compress {
    /// Values, `w` wide, or `2w` with overlap: the first half for the next group, the second for the token's own.
    pub values: Act,
    /// Scores, as wide as values.
    pub scores: Act,
    /// Added to scores by the token's place in its group: `[ratio][width of scores]`.
    pub place: Vector,
    /// Tokens in a group.
    pub ratio: usize,
    /// A group also sees the tokens of the group before it.
    pub overlap: bool,
    /// RMS norm of a finished row.
    pub gain: Vector,
    /// Added to the mean square.
    pub eps: f32,
    /// Angles at the group's first token.
    pub rope: Rope,
    /// Pending states, `slots` of [`Compress::state_bytes`] per KV block.
    pub state: Pool,
    /// A block keeps the states after each of its last tokens, that of position `p` in slot `p % slots`: a sequence may be
    /// continued from any of them, which is what taking back rejected drafts needs. 1 without drafts.
    pub slots: usize,
    /// Of a finished row.
    pub rounding: Rounding,
    /// Finished rows, one per `ratio` tokens.
    pub pool: Pool,
    /// Their number format.
    pub store: RowStore,
}

impl Compress {
    /// Bytes of pending state of a compressor of this width: running maximum, sum and weighted sum of the group, and with overlap
    /// of the next one.
    #[must_use]
    pub fn state_bytes(width: usize, overlap: bool) -> usize {
        width * 3 * size_of::<f32>() * if overlap { 2 } else { 1 }
    }
}

/// Arguments of [`SparseOps::select`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Select {
    /// Rotated queries, heads side by side.
    pub q: Act,
    /// A weight for each head.
    pub weights: Act,
    /// Multiplies the weights.
    pub factor: f32,
    /// Compressed rows to score.
    pub pool: Pool,
    /// Tokens per row.
    pub ratio: usize,
    /// Their number format.
    pub store: RowStore,
    /// The choice, by ascending row number.
    pub out: Picks,
}

/// Compressed rows that attention sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compressed {
    /// The rows.
    pub pool: Pool,
    /// Tokens per row.
    pub ratio: usize,
    /// Their number format.
    pub store: RowStore,
    /// Only these; all visible ones without.
    pub picks: Option<Picks>,
}

/// Arguments of [`SparseOps::sparse_attention`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseAttention {
    /// Rotated queries, heads side by side.
    pub q: Act,
    /// Query heads.
    pub heads: usize,
    /// Multiplies scores.
    pub scale: f32,
    /// Tokens that are seen uncompressed, the row's own included.
    pub window: usize,
    /// Position of the first token that is seen: 0, or where earlier ones have no rows. No row at an earlier position is used.
    pub first: usize,
    /// Uncompressed rows of this step's tokens, finished.
    pub rows: Act,
    /// Those of earlier tokens.
    pub earlier: WindowPool,
    /// Compressed rows, which already hold this step's.
    pub compressed: Option<Compressed>,
    /// For each head a score that takes part in the softmax and has no value.
    pub sinks: Vector,
    /// Angles, which are taken back from the results.
    pub rope: Rope,
    /// Results, heads side by side.
    pub out: Act,
}

/// Compressed sparse attention.
pub trait SparseOps {
    /// Normalises (if asked), rotates the end of, and rounds each head.
    fn rotate_tails(&mut self, args: &RotateTails);
    /// Normalises rows, rotates their ends, rounds them, and makes of them what their pool would give back.
    fn finish_rows(&mut self, args: &FinishRows);
    /// Keeps finished rows of the step's tokens, in each block those of its last tokens: after the step's attention, because
    /// the ring holds rows that its first tokens see.
    fn keep_rows(&mut self, rows: Act, to: &WindowPool);
    /// `out[r]` is the row one position before `r`: of this step's `rows`, before them what [`Self::keep_rows`] kept, and zeros where
    /// there is none. `out` is another buffer.
    fn preceding_rows(&mut self, rows: Act, kept: &WindowPool, out: Act);
    /// For each channel of a finished group: `sum_t softmax_t(score_t + place) value_t`, over the group's tokens (and the earlier ones, with
    /// overlap), ascending. The row is normalised, its end rotated, rounded, and stored. Unfinished groups wait in `state`.
    fn compress(&mut self, args: &Compress);
    /// Of the rows visible at position `p`, the first `(p + 1) / ratio`, chooses those with the largest
    /// `sum_h weight_h * factor * max(0, q_h . row)`; the lower number of equals.
    fn select(&mut self, args: &Select);
    /// Attention over the window's rows, then the compressed ones, each ascending; then the results' ends are rotated back.
    fn sparse_attention(&mut self, args: &SparseAttention);
}
