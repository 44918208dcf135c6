//! The weight of a linear layer, in whichever number format the checkpoint keeps it.

use super::tensor::Tensor;

/// NVFP4 elements that share a block scale.
pub(super) const NVFP4_GROUP: usize = 16;
/// MXFP4 elements that share a block scale.
pub(super) const MXFP4_GROUP: usize = 32;

/// A weight matrix `[out, in]`; `y = W x`. FP4 codes are packed along `in`, low nibble first.
#[derive(Clone, Debug)]
pub enum Linear {
    /// BF16, F16 or F32, as the tensor's dtype says.
    Float(Tensor),
    /// `W = e2m1(code) * e4m3(scale) * scale_2`, evaluated in F32 left to right.
    Nvfp4 {
        /// U8 `[out, in/2]`.
        packed: Tensor,
        /// E4M3 `[out, in/16]`, row-major, not swizzled.
        scales: Tensor,
        /// Scale of the whole tensor. compressed-tensors stores the reciprocal; this is always the factor.
        scale_2: f32,
        /// Calibrated activation scale (amax / 2688), where the checkpoint has one; only W4A4 kernels use it.
        input_scale: Option<f32>,
    },
    /// `W = e4m3(code) * scale[row / block[0], col / block[1]]`.
    Fp8Block {
        /// E4M3 `[out, in]`.
        codes: Tensor,
        /// E8M0 or F32 `[ceil(out/block[0]), ceil(in/block[1])]`.
        scales: Tensor,
        /// Rows and columns that share a scale.
        block: [usize; 2],
    },
    /// `W = e2m1(code) * 2^(scale - 127)`.
    Mxfp4 {
        /// U8, I8 or F4, `[out, in/2]` bytes.
        packed: Tensor,
        /// E8M0 (or U8 holding it) `[out, in/32]`.
        scales: Tensor,
        /// Columns of the matrix.
        columns: usize,
    },
}

impl Linear {
    /// Rows (outputs) and columns (inputs) of the matrix.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        let of = |t: &Tensor| (t.shape().first().copied().unwrap_or(0), t.shape().get(1).copied().unwrap_or(0));
        match self {
            Self::Float(t) | Self::Fp8Block { codes: t, .. } => of(t),
            Self::Nvfp4 { packed, .. } => (of(packed).0, of(packed).1 * 2),
            Self::Mxfp4 { packed, columns, .. } => (of(packed).0, *columns),
        }
    }

    /// Short name of the format, for people.
    #[must_use]
    pub fn format(&self) -> &'static str {
        match self {
            Self::Float(t) => match t.dtype() {
                super::Dtype::Bf16 => "bf16",
                super::Dtype::F16 => "f16",
                _ => "f32",
            },
            Self::Nvfp4 { .. } => "nvfp4",
            Self::Fp8Block { .. } => "fp8",
            Self::Mxfp4 { .. } => "mxfp4",
        }
    }

    /// Bytes the weight takes on disk, scales included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Float(t) => t.bytes().len(),
            Self::Nvfp4 { packed, scales, .. } => packed.bytes().len() + scales.bytes().len() + 4,
            Self::Fp8Block { codes: t, scales, .. } | Self::Mxfp4 { packed: t, scales, .. } => {
                t.bytes().len() + scales.bytes().len()
            }
        }
    }
}
