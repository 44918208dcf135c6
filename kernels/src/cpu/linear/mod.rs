//! Matrices in row tiles of sixteen, and the loops that multiply them with a batch.

pub(crate) mod dense;
pub(crate) mod int8;
pub(crate) mod nvfp4;
pub(crate) mod run;

use half::f16;

use crate::tensor::{BuildError, Matrix, Values};
use dense::DenseTiles;
use int8::Int8Tiles;
use nvfp4::Nvfp4Tiles;

/// Rows of a tile; one SIMD lane each.
pub(crate) const ROWS: usize = 16;
/// Results of one tile for one token.
pub(crate) type Column = [f32; ROWS];

/// How fast mode and reference mode differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// f32 activations; weights decoded exactly; the specification.
    Reference,
    /// NVFP4 weights and the head meet int8 activations (16 numbers share a scale); all else as the reference.
    Fast,
}

/// A matrix repacked for this processor.
#[derive(Debug)]
pub(crate) enum Tiles {
    /// E2M1 codes that meet int8 cells.
    Nvfp4(Nvfp4Tiles),
    /// int8 weights, a scale for each 32 columns, that meet int8 cells.
    Int8(Int8Tiles),
    /// Anything that meets f32.
    Dense(DenseTiles),
}

/// A matrix of a linear.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) tiles: Tiles,
}

/// Matrices stacked by rows.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) cols: usize,
    pub(crate) parts: Vec<Part>,
}

impl Part {
    pub(crate) fn pack(m: &Matrix, arithmetic: Arithmetic) -> Result<Self, BuildError> {
        m.check()?;
        let tiles = match (&m.values, arithmetic) {
            (Values::Nvfp4 { codes, scales, global }, Arithmetic::Fast) => {
                Tiles::Nvfp4(Nvfp4Tiles::pack(m.rows, m.cols, codes, scales, *global))
            }
            _ => Tiles::Dense(DenseTiles::pack(m)),
        };
        Ok(Self { rows: m.rows, cols: m.cols, tiles })
    }

    pub(crate) fn pack_head(m: &Matrix, arithmetic: Arithmetic) -> Result<Self, BuildError> {
        let float = matches!(m.values, Values::F32(_) | Values::F16(_) | Values::Bf16(_));
        if arithmetic == Arithmetic::Reference || !float || !m.cols.is_multiple_of(int8::GROUP) {
            return Self::pack(m, arithmetic);
        }
        m.check()?;
        Ok(Self { rows: m.rows, cols: m.cols, tiles: Tiles::Int8(Int8Tiles::quantize(m)) })
    }

    pub(crate) fn tiles(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    pub(crate) fn reads_cells(&self) -> bool {
        !matches!(self.tiles, Tiles::Dense(_))
    }
}

impl Stack {
    pub(crate) fn new(parts: Vec<Part>) -> Result<Self, BuildError> {
        let cols = parts.first().map_or(0, |p| p.cols);
        match parts.iter().find(|p| p.cols != cols) {
            Some(odd) => Err(BuildError::Shape(format!("stacked matrices of {cols} and {} columns", odd.cols))),
            None if cols == 0 => Err(BuildError::Shape("a linear without matrices".into())),
            None => Ok(Self { cols, parts }),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(|p| p.rows).sum()
    }
}

/// Number `i` of float values.
#[inline(always)]
pub(crate) fn float_at(values: &Values, i: usize) -> f32 {
    match values {
        Values::F32(b) => f32::from_le_bytes([b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]]),
        Values::F16(b) => f16::from_le_bytes([b[2 * i], b[2 * i + 1]]).to_f32(),
        Values::Bf16(b) => f32::from_bits(u32::from(b[2 * i]) << 16 | u32::from(b[2 * i + 1]) << 24),
        Values::Nvfp4 { .. } | Values::Fp8Block128 { .. } => f32::NAN,
    }
}

/// Sixty-four bytes on a cache line of their own.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [u8; 64]);

impl Line {
    pub(crate) fn zeros(bytes: usize) -> Vec<Self> {
        vec![Self([0; 64]); bytes.div_ceil(64)]
    }
}
