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
/// [`BuildError::Shape`] for a float tensor that is no matrix.
pub fn linear(w: &Linear) -> Result<Matrix, BuildError> {
    match w {
        Linear::Float(t) => float(t),
        packed => Ok(packed.matrix()),
    }
}
