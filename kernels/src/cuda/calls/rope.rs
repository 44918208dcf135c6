//! Rotation and the append to KV memory.

use crate::cuda::call::{Address, Call, Floats, RowCount, args};

/// A step's metadata on the device: a `u32` for each row, except the tables themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepAt {
    /// Position of each row in its sequence.
    pub positions: Address,
    /// For each row, the position of its sequence's first row in this step.
    pub starts: Address,
    /// For each row, the position behind its sequence's last row in this step.
    pub ends: Address,
    /// For each row, the first entry of its block table.
    pub tables: Address,
    /// All block tables.
    pub block_tables: Address,
    /// Number of rows.
    pub rows: RowCount,
}

/// A pool and how its blocks are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvPlace {
    /// bf16, by block: all keys, then all values, each `[head][token][dim]`.
    pub pool: Address,
    /// KV heads.
    pub heads: u32,
    /// Numbers in a key, and in a value.
    pub dim: u32,
    /// Tokens in a block.
    pub block_tokens: u32,
}

/// Gains of head norms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadGains {
    /// For queries.
    pub q: Address,
    /// For keys.
    pub k: Address,
    /// Added to the mean square.
    pub eps: f32,
}

/// Cosines and sines of the step's rows, `frequencies` of each a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RopeRows {
    /// f32.
    pub cosines: Address,
    /// f32.
    pub sines: Address,
    /// Numbers a row.
    pub frequencies: u32,
    /// Pairs are neighbours, not halves.
    pub interleaved: bool,
}

/// Normalises (with gains) and rotates queries and keys in place, and stores keys and values.
#[must_use]
pub fn rope_append(qkv: Floats, rope: RopeRows, norm: Option<HeadGains>, kv: KvPlace, step: StepAt) -> Call {
    const WARPS: u32 = 4;
    let heads = qkv.width / kv.dim;
    let norm = norm.unwrap_or(HeadGains { q: Address::NULL, k: Address::NULL, eps: 0.0 });
    let args = args![
        qkv.at,
        qkv.stride,
        kv.pool,
        rope.cosines,
        rope.sines,
        rope.frequencies,
        u32::from(rope.interleaved),
        norm.q,
        norm.k,
        norm.eps,
        heads - 2 * kv.heads,
        kv.heads,
        kv.dim,
        kv.block_tokens,
        step.positions,
        step.tables,
        step.block_tables,
        step.rows.at,
    ];
    Call { kernel: "rope_append", grid: [step.rows.most, heads.div_ceil(WARPS), 1], block: 32 * WARPS, shared: 0, args }
}
