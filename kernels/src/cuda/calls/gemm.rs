//! Matrix products.

use crate::cuda::call::{Address, Arg, Call, Floats, Inputs, RowCount, args};
use crate::cuda::pack::{Format, TILE_ROWS};

/// Packed weights on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightsAt {
    /// Number format.
    pub format: Format,
    /// Codes or numbers.
    pub codes: Address,
    /// Block scales.
    pub scales: Address,
    /// A factor for each row of the matrix.
    pub alpha: Address,
    /// Results of a row.
    pub columns: u32,
    /// Steps of 64 of the input.
    pub steps: u32,
}

impl WeightsAt {
    /// Tiles of 32 rows; gate and up are interleaved in groups of eight.
    pub(super) fn tiles(&self, gated: bool) -> u32 {
        let rows = if gated { self.columns.next_multiple_of(8) * 2 } else { self.columns };
        rows.div_ceil(TILE_ROWS as u32)
    }
}

/// What becomes of results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finish {
    /// Stored.
    Store(Floats),
    /// Added to what is there.
    Add(Floats),
    /// `silu(gate) * up` of interleaved weights; no limit is infinity.
    Gated {
        /// Input of the next linears.
        out: Inputs,
        /// Caps the gate and clamps up.
        limit: f32,
    },
}

impl Finish {
    /// Which kernel of three, and the parameters that all of them begin with: where results go, the limit.
    pub(super) fn args(self) -> (usize, Vec<Arg>) {
        let nothing = Inputs { halves: Address::NULL, half_stride: 0, floats: Address::NULL, float_stride: 0 };
        let (which, (at, stride), gated, limit) = match self {
            Self::Store(to) => (0, (to.at, to.stride), nothing, 0.0),
            Self::Add(to) => (1, (to.at, to.stride), nothing, 0.0),
            Self::Gated { out, limit } => (2, (Address::NULL, 0), out, limit),
        };
        let Inputs { halves, half_stride, floats, float_stride } = gated;
        (which, args![at, stride, halves, half_stride, floats, float_stride, limit])
    }
}

/// Rows of a block: a matter of speed; results have the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileRows {
    /// At most 16 rows in all.
    Few,
    /// 64.
    Some,
    /// 128.
    Many,
}

impl TileRows {
    /// The usual choice for a number of rows.
    #[must_use]
    pub fn of(rows: u32) -> Self {
        match rows {
            0..=16 => Self::Few,
            17..=255 => Self::Some,
            _ => Self::Many,
        }
    }
}

macro_rules! names {
    ($format:literal) => {
        [
            [
                concat!("gemm_", $format, "_16_store"),
                concat!("gemm_", $format, "_16_add"),
                concat!("gemm_", $format, "_16_gated"),
            ],
            [
                concat!("gemm_", $format, "_64_store"),
                concat!("gemm_", $format, "_64_add"),
                concat!("gemm_", $format, "_64_gated"),
            ],
            [
                concat!("gemm_", $format, "_128_store"),
                concat!("gemm_", $format, "_128_add"),
                concat!("gemm_", $format, "_128_gated"),
            ],
        ]
    };
}

/// Kernels for experts: plain and gated.
pub(super) fn expert_names(format: Format) -> [&'static str; 2] {
    match format {
        Format::Nvfp4 => ["gemm_nvfp4_experts_store", "gemm_nvfp4_experts_gated"],
        Format::Bf16 => ["gemm_bf16_experts_store", "gemm_bf16_experts_gated"],
        Format::Fp8 => ["gemm_fp8_experts_store", "gemm_fp8_experts_gated"],
    }
}

/// Multiplies bf16 rows with packed weights.
///
/// # Panics
/// If [`TileRows::Few`] is asked to do more than 16 rows.
#[must_use]
pub fn gemm(a: Inputs, w: WeightsAt, finish: Finish, rows: RowCount, tile: TileRows) -> Call {
    assert!(tile != TileRows::Few || rows.most <= 16, "{} rows are not few", rows.most);
    let names: [[&'static str; 3]; 3] = match w.format {
        Format::Nvfp4 => names!("nvfp4"),
        Format::Bf16 => names!("bf16"),
        Format::Fp8 => names!("fp8"),
    };
    let (which, mut args) = finish.args();
    let tiles = w.tiles(which == 2);
    let (grid, block, shared) = match tile {
        TileRows::Few => ([tiles, 1, 1], 256, 0),
        TileRows::Some => ([tiles.div_ceil(2), rows.most.div_ceil(64), 1], 128, 2 * 64 * 128),
        TileRows::Many => ([tiles.div_ceil(4), rows.most.div_ceil(128), 1], 256, 2 * 128 * 128),
    };
    args.extend(args![a.halves, a.half_stride, w.codes, w.scales, w.alpha, w.columns, w.steps, rows.at,]);
    Call { kernel: names[tile as usize][which], grid, block, shared, args }
}

/// NVFP4 rows on the device, padded to whole steps of 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fp4At {
    /// Two codes a byte.
    pub codes: Address,
    /// A block scale for 16 columns.
    pub scales: Address,
    /// An f32 for each row.
    pub row_scales: Address,
    /// Columns with their padding.
    pub padded: u32,
}

/// Quantizes bf16 rows of `width` numbers, each by itself.
#[must_use]
pub fn quantize_nvfp4(x: Inputs, width: u32, out: Fp4At, rows: RowCount) -> Call {
    let args = args![out.codes, out.scales, out.row_scales, out.padded, x.halves, x.half_stride, width, rows.at];
    let block = width.div_ceil(16).next_multiple_of(32).min(256);
    Call { kernel: "quantize_nvfp4", grid: [rows.most, 1, 1], block, shared: 0, args }
}

/// Multiplies NVFP4 rows with NVFP4 weights packed by [`crate::cuda::pack::stack_fp4`] or `gated_fp4`. On sm_12x only.
#[must_use]
pub fn gemm_w4a4(a: Fp4At, w: WeightsAt, finish: Finish, rows: RowCount) -> Call {
    let (which, mut args) = finish.args();
    let (tile, names) = if rows.most <= 16 {
        (16, ["gemm_w4a4_16_store", "gemm_w4a4_16_add", "gemm_w4a4_16_gated"])
    } else {
        (64, ["gemm_w4a4_64_store", "gemm_w4a4_64_add", "gemm_w4a4_64_gated"])
    };
    args.extend(args![a.codes, a.scales, a.row_scales, w.codes, w.scales, w.alpha, w.columns, w.steps, rows.at,]);
    let grid = [w.tiles(which == 2).div_ceil(2), rows.most.div_ceil(tile), 1];
    Call { kernel: names[which], grid, block: 128, shared: 2 * (tile + 64) * 64, args }
}

/// Multiplies f32 rows with f32 weights `[columns][width]`, for small matrices whose precision matters (routers, mixes).
#[must_use]
pub fn gemm_f32(a: Floats, weights: Address, out: Floats, add: bool, rows: RowCount) -> Call {
    const WARPS: u32 = 4;
    let args = args![out.at, out.stride, a.at, a.stride, weights, out.width, a.width, u32::from(add), rows.at];
    Call { kernel: "gemm_f32", grid: [out.width.div_ceil(WARPS), rows.most, 1], block: 32 * WARPS, shared: 0, args }
}
