//! Operations of compressed sparse attention (DeepSeek-V4): one row per token serves as key and value; older tokens are seen through
//! compressed rows, of which an indexer selects some. Part of the specification, like [`crate::ops`].
//!
//! Rows are rotated at their end only. A compressor's pending state lives in the KV block of the last token that it has
//! seen, so blocks are all there is to share, move and free.

use crate::moe::Picks;
use crate::ops::{Act, KvStore, Pool, Rope, Vector};

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
}

/// Arguments of [`SparseOps::append_rows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppendRows {
    /// One row per token.
    pub rows: Act,
    /// RMS norm.
    pub gain: Vector,
    /// Added to the mean square.
    pub eps: f32,
    /// Angles.
    pub rope: Rope,
    /// One row per token.
    pub pool: Pool,
    /// Its number format.
    pub store: KvStore,
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
    /// Pending state, one row of [`Compress::state_bytes`] per KV block.
    pub state: Pool,
    /// Finished rows, one per `ratio` tokens.
    pub pool: Pool,
    /// Their number format.
    pub store: KvStore,
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
    pub store: KvStore,
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
    /// Uncompressed rows, one per token.
    pub pool: Pool,
    /// Compressed rows.
    pub compressed: Option<Compressed>,
    /// Number format of all rows.
    pub store: KvStore,
    /// For each head a score that takes part in the softmax and has no value.
    pub sinks: Vector,
    /// Angles, which are taken back from the results.
    pub rope: Rope,
    /// Results, heads side by side.
    pub out: Act,
}

/// Compressed sparse attention.
pub trait SparseOps {
    /// Normalises (if asked) and rotates the end of each head.
    fn rotate_tails(&mut self, args: &RotateTails);
    /// Normalises rows, rotates their ends, and stores them in the row's slot of the pool.
    fn append_rows(&mut self, args: &AppendRows);
    /// For each channel of a finished group: `sum_t softmax_t(score_t + place) value_t`, over the group's tokens (and the earlier ones, with
    /// overlap), ascending. The row is normalised, its end rotated, and stored. Unfinished groups wait in `state`.
    fn compress(&mut self, args: &Compress);
    /// Of the rows visible at position `p`, the first `(p + 1) / ratio`, chooses those with the largest
    /// `sum_h weight_h * factor * max(0, q_h . row)`; the lower number of equals.
    fn select(&mut self, args: &Select);
    /// Attention over the window's rows, then the compressed ones, each ascending; then the results' ends are rotated back.
    fn sparse_attention(&mut self, args: &SparseAttention);
}
