//! From a checkpoint's weight to the matrix that a device takes; bytes stay shared with the mapped file.

use sluicegate_kernels::tensor::{BuildError, Matrix, Values};

use crate::weights::{Dtype, Linear, Tensor};

/// A BF16, F16 or F32 tensor of two dimensions.
///
/// # Errors
/// [`BuildError::Shape`] for other tensors.
pub fn float(t: &Tensor) -> Result<Matrix, BuildError> {
    let &[rows, cols] = t.shape() else {
        return Err(BuildError::Shape(format!("shape {:?} is no matrix", t.shape())));
    };
    let bytes = t.bytes().clone();
    let values = match t.dtype() {
        Dtype::F32 => Values::F32(bytes),
        Dtype::F16 => Values::F16(bytes),
        Dtype::Bf16 => Values::Bf16(bytes),
        other => return Err(BuildError::Shape(format!("{other} values where floats are needed"))),
    };
    Ok(Matrix { rows, cols, values })
}

/// The weight of a linear layer.
///
/// # Errors
/// [`BuildError::Shape`] for a layout that no device takes yet.
pub fn linear(w: &Linear) -> Result<Matrix, BuildError> {
    let (rows, cols) = w.shape();
    let values = match w {
        Linear::Float(t) => return float(t),
        Linear::Nvfp4 { packed, scales, scale_2, .. } => {
            Values::Nvfp4 { codes: packed.bytes().clone(), scales: scales.bytes().clone(), global: *scale_2 }
        }
        Linear::Fp8Block { codes, scales, block: [128, 128] } if *scales.dtype() == Dtype::F8E8m0 => {
            Values::Fp8Block128 { codes: codes.bytes().clone(), scales: scales.bytes().clone() }
        }
        Linear::Fp8Block { scales, block, .. } => {
            let text =
                format!("FP8 blocks of {block:?} with {} scales; 128 x 128 with F8_E8M0 are run", scales.dtype());
            return Err(BuildError::Shape(text));
        }
        Linear::Mxfp4 { .. } => return Err(BuildError::Shape("MXFP4 weights are not run; convert to NVFP4".into())),
    };
    Ok(Matrix { rows, cols, values })
}
