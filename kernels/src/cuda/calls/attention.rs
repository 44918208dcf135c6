//! Paged attention: tiles of query rows, units of 128 tokens.

use super::rope::{KvPlace, StepAt};
use crate::batch::Extent;
use crate::cuda::call::{Address, Call, Floats, Inputs, RowCount, args};

/// Tokens of a unit: what has a softmax of its own. A constant of the arithmetic, not a knob.
pub const UNIT: u32 = 128;

/// Query rows (token and head) of a block: a matter of speed; results have the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryRows {
    /// 16: decode.
    Few,
    /// 64: prefill.
    Many,
}

impl QueryRows {
    /// The number.
    #[must_use]
    pub fn count(self) -> u32 {
        match self {
            Self::Few => 16,
            Self::Many => 64,
        }
    }
}

/// Query rows that one block takes: tokens of one sequence times the heads that read a KV head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// First row of the step.
    pub row: u32,
    /// Rows of the step.
    pub tokens: u32,
    /// First of its units among those of all tiles.
    pub unit: u32,
}

/// Cuts a step into tiles; `group` query heads read a KV head. Returns the tiles and the number of their units.
#[must_use]
pub fn tiles(extents: &[Extent], group: u32, rows: QueryRows) -> (Vec<Tile>, u32) {
    let tokens = (rows.count() / group.min(16)).max(1);
    let mut unit = 0;
    let mut out = Vec::new();
    for e in extents {
        for first in (0..e.rows).step_by(tokens as usize) {
            let tokens = tokens.min(e.rows - first);
            out.push(Tile { row: e.row + first, tokens, unit });
            unit += (e.start + first + tokens - 1) / UNIT + 1;
        }
    }
    (out, unit)
}

/// Tiles on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilesAt {
    /// Three `u32` each: row, tokens, unit.
    pub list: Address,
    /// How many.
    pub count: RowCount,
    /// Their query rows.
    pub rows: QueryRows,
}

/// How units are spread over blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// A block folds all units of its tile.
    Whole,
    /// A block has so many units at most and leaves them in `partials`, which [`attention_merge`] folds.
    Split {
        /// Units of a block.
        per_block: u32,
        /// Most units of a tile.
        most_units: u32,
        /// f32, [`partial_numbers`] of them.
        partials: Address,
    },
}

/// Arguments of attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionAt {
    /// Rotated queries, heads side by side.
    pub q: Floats,
    /// Keys and values.
    pub kv: KvPlace,
    /// Multiplies scores.
    pub scale: f32,
    /// Results, heads side by side.
    pub out: Inputs,
    /// The step.
    pub step: StepAt,
    /// Its tiles.
    pub tiles: TilesAt,
}

/// Head sizes that have kernels.
pub const HEAD_DIMS: [u32; 4] = [16, 32, 64, 128];

/// Numbers that `units` units leave behind.
#[must_use]
pub fn partial_numbers(units: u32, q_heads: u32, kv: &KvPlace, rows: QueryRows) -> usize {
    units as usize * groups(q_heads, kv) as usize * rows.count() as usize * (kv.dim as usize + 2)
}

/// Blocks for a tile: KV heads, times portions of 16 of the query heads that read one.
fn groups(q_heads: u32, kv: &KvPlace) -> u32 {
    kv.heads * (q_heads / kv.heads).div_ceil(16)
}

fn names(dim: u32) -> [&'static str; 3] {
    match dim {
        16 => ["attention_16_16", "attention_16_64", "attention_merge_16"],
        32 => ["attention_32_16", "attention_32_64", "attention_merge_32"],
        64 => ["attention_64_16", "attention_64_64", "attention_merge_64"],
        128 => ["attention_128_16", "attention_128_64", "attention_merge_128"],
        _ => panic!("no attention kernel for heads of {dim}; there are {HEAD_DIMS:?}"),
    }
}

fn call(a: &AttentionAt, kernel: &'static str, partials: Address, last: u32, grid_z: u32, shared: u32) -> Call {
    let q_heads = a.q.width / a.kv.dim;
    let args = args![
        a.out.halves,
        a.out.half_stride,
        a.out.floats,
        a.out.float_stride,
        a.q.at,
        a.q.stride,
        a.kv.pool,
        q_heads,
        a.kv.heads,
        a.kv.block_tokens,
        a.scale,
        a.step.positions,
        a.step.tables,
        a.step.block_tables,
        a.tiles.list,
        a.tiles.count.at,
        partials,
        last,
    ];
    Call { kernel, grid: [a.tiles.count.most, groups(q_heads, &a.kv), grid_z], block: 128, shared, args }
}

/// Attends; with [`Spread::Split`], [`attention_merge`] has to follow.
///
/// # Panics
/// If there is no kernel for the head size.
#[must_use]
pub fn attention(a: &AttentionAt, spread: Spread) -> Call {
    let (dim, rows) = (a.kv.dim, a.tiles.rows.count());
    let kernel = names(dim)[usize::from(a.tiles.rows == QueryRows::Many)];
    // Queries, keys and values, weights, a maximum and a sum for each of four warps: as `AttentionMemory`.
    let shared = rows * dim * 2 + 2 * UNIT * dim * 2 + rows * UNIT * 2 + 2 * 4 * rows * 4;
    match spread {
        Spread::Whole => call(a, kernel, Address::NULL, 0, 1, shared),
        Spread::Split { per_block, most_units, partials } => {
            call(a, kernel, partials, per_block, most_units.div_ceil(per_block), shared)
        }
    }
}

/// Folds the units of a split launch.
///
/// # Panics
/// If there is no kernel for the head size.
#[must_use]
pub fn attention_merge(a: &AttentionAt, partials: Address) -> Call {
    call(a, names(a.kv.dim)[2], partials, a.tiles.rows.count(), 1, 0)
}
