//! Matrices in row tiles of sixteen, and the loops that multiply them with a batch.

pub(crate) mod dense;
pub(crate) mod int8;
pub(crate) mod largest;
pub(crate) mod nvfp4;
mod pack;
pub(crate) mod run;
mod scales;

use crate::cpu::element::{Bf16, Element, F16};
use crate::tensor::{BuildError, Matrix, Values};
use dense::DenseTiles;
use int8::Int8Tiles;
use nvfp4::Nvfp4Tiles;
pub(crate) use pack::Packer;

/// Rows of a tile; one SIMD lane each.
pub(crate) const ROWS: usize = 16;
/// Results of one tile for one token.
pub(crate) type Column = [f32; ROWS];

/// How fast mode and reference mode differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// f32 activations; weights decoded exactly; the specification.
    Reference,
    /// NVFP4 weights and the head meet int8 activations (32 numbers share a scale); all else as the reference.
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
    pub(crate) rounds: Rounding,
}

/// What becomes of activations in front of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Nothing.
    None,
    /// E4M3 in groups, as DeepSeek's kernels do in front of FP8 and FP4 weights.
    Fp8,
    /// NVFP4, as kernels do that multiply FP4 with FP4.
    Nvfp4,
}

/// Matrices stacked by rows.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) cols: usize,
    pub(crate) parts: Vec<Part>,
}

impl Part {
    pub(crate) fn pack(packer: &mut Packer<'_>, m: &Matrix, arithmetic: Arithmetic) -> Result<Self, BuildError> {
        m.check()?;
        let tiles = match (&m.values, arithmetic) {
            (Values::Nvfp4 { codes, scales, global }, Arithmetic::Fast) => {
                Tiles::Nvfp4(Nvfp4Tiles::pack(packer, (m.rows, m.cols), codes, scales, *global))
            }
            _ => Tiles::Dense(DenseTiles::pack(packer.threads, m)),
        };
        Ok(Self { rows: m.rows, cols: m.cols, tiles, rounds: Rounding::None })
    }

    /// With `fp8`, activations are rounded in front of a matrix of 8-bit or 4-bit floats; with `fp4`, they become NVFP4 in front of a
    /// matrix of NVFP4. Not where they become integers.
    pub(crate) fn rounding(self, m: &Matrix, fp8: bool, fp4: bool) -> Self {
        let rounds = match &m.values {
            _ if self.reads_cells() => Rounding::None,
            Values::Nvfp4 { .. } if fp4 => Rounding::Nvfp4,
            Values::Nvfp4 { .. } | Values::Fp8Block128 { .. } if fp8 => Rounding::Fp8,
            _ => Rounding::None,
        };
        Self { rounds, ..self }
    }

    pub(crate) fn pack_head(packer: &mut Packer<'_>, m: &Matrix, arithmetic: Arithmetic) -> Result<Self, BuildError> {
        let float = matches!(m.values, Values::F32(_) | Values::F16(_) | Values::Bf16(_));
        if arithmetic == Arithmetic::Reference || !float || !m.cols.is_multiple_of(int8::GROUP) {
            return Self::pack(packer, m, arithmetic);
        }
        m.check()?;
        let tiles = Tiles::Int8(Int8Tiles::quantize(packer, m));
        Ok(Self { rows: m.rows, cols: m.cols, tiles, rounds: Rounding::None })
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

/// Numbers `first..first + out.len()` of float values.
pub(crate) fn floats_at(values: &Values, first: usize, out: &mut [f32]) {
    match values {
        Values::F32(b) => decode(&b[4 * first..], out, f32::from_le_bytes),
        Values::F16(b) => decode(&b[2 * first..], out, |v| F16(u16::from_le_bytes(v)).widen()),
        Values::Bf16(b) => decode(&b[2 * first..], out, |v| Bf16(u16::from_le_bytes(v)).widen()),
        Values::Nvfp4 { .. } | Values::Fp8Block128 { .. } => out.fill(f32::NAN),
    }
}

#[inline(always)]
fn decode<const N: usize>(bytes: &[u8], out: &mut [f32], one: impl Fn([u8; N]) -> f32) {
    for (o, &b) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *o = one(b);
    }
}
