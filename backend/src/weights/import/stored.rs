//! The tensors of a folder that is imported: floats, weights in 8-bit or 4-bit floats with their scales, and what is copied.

use std::collections::{BTreeMap, HashSet};

use sluicegate_kernels::fp8::{e4m3_to_f32, e8m0_to_f32};
use sluicegate_kernels::nvfp4::E2M1;

use super::super::linear::MXFP4_GROUP;
use super::super::{Checkpoint, Dtype, Linear, Tensor, WeightsError};
use super::Target;
use super::plan::quantization_group;
use super::source::{Packed, SourceTensor};

/// One weight, or a tensor that is none.
pub(super) enum Stored {
    /// A tensor by itself.
    Plain(Tensor),
    /// E4M3 and the factor of each block.
    Fp8 {
        /// The weight's name in the new folder.
        name: String,
        codes: Tensor,
        factors: Vec<f32>,
        block: [usize; 2],
    },
    /// E2M1 with a power of two for each 32 numbers.
    Mxfp4 { name: String, packed: Tensor, scales: Tensor, shape: [usize; 2] },
}

/// All tensors of a checkpoint. Weights in FP8 or MXFP4 that will be quantized take their scales along; others are copied, and
/// so are their scales: a layer that is in NVFP4 already stays as it is.
pub(super) fn stored(checkpoint: &Checkpoint, target: Target) -> Result<Vec<Stored>, WeightsError> {
    let weights = if target == Target::Nvfp4 { narrow_weights(checkpoint)? } else { BTreeMap::new() };
    let scales: HashSet<&str> = weights
        .values()
        .filter_map(|(_, l)| match l {
            Linear::Fp8Block { scales, .. } | Linear::Mxfp4 { scales, .. } => Some(scales.name()),
            _ => None,
        })
        .collect();
    let one = |t: &Tensor| match weights.get(t.name()) {
        Some((name, Linear::Fp8Block { codes, scales, block })) => {
            let powers = || scales.bytes().iter().map(|&b| e8m0_to_f32(b)).collect();
            let factors = scales.to_f32().unwrap_or_else(powers);
            Stored::Fp8 { name: name.clone(), codes: codes.clone(), factors, block: *block }
        }
        Some((name, l @ Linear::Mxfp4 { packed, scales, .. })) => {
            let (rows, cols) = l.shape();
            Stored::Mxfp4 { name: name.clone(), packed: packed.clone(), scales: scales.clone(), shape: [rows, cols] }
        }
        _ => Stored::Plain(t.clone()),
    };
    Ok(checkpoint.tensors().filter(|t| !scales.contains(t.name())).map(one).collect())
}

/// The new name and the weight, by the stored tensor's name, of every weight in FP8 or MXFP4 that has a place in the recipe.
fn narrow_weights(checkpoint: &Checkpoint) -> Result<BTreeMap<String, (String, Linear)>, WeightsError> {
    checkpoint.load(|load| {
        let mut found = BTreeMap::new();
        for t in checkpoint.tensors() {
            let &[rows, wide] = t.shape() else { continue };
            let cols = match t.dtype() {
                Dtype::F8E4m3 | Dtype::F4 => wide,
                Dtype::U8 | Dtype::I8 => 2 * wide,
                _ => continue,
            };
            let prefix = [".weight", ".weight_packed"].iter().find_map(|s| t.name().strip_suffix(s));
            let Some(prefix) = prefix else { continue };
            let other = ["weight_scale_2", "weight_global_scale"].iter().any(|s| load.has(&format!("{prefix}.{s}")));
            let name = format!("{prefix}.weight");
            let describes = SourceTensor { name: name.clone(), shape: vec![rows, cols], kept: Dtype::Bf16, cols };
            if !other && quantization_group(&describes).is_some() {
                found.insert(t.name().to_owned(), (name, load.linear(prefix, rows, cols)));
            }
        }
        load.ignore(|_| true);
        found
    })
}

impl Stored {
    pub(super) fn describe(&self) -> SourceTensor {
        let (name, shape, kept) = match self {
            Self::Plain(t) => {
                let weight = t.name().ends_with(".weight") && matches!(t.dtype(), Dtype::F16 | Dtype::F32);
                (t.name().to_owned(), t.shape().to_vec(), if weight { Dtype::Bf16 } else { t.dtype().clone() })
            }
            Self::Fp8 { name, codes, .. } => (name.clone(), codes.shape().to_vec(), Dtype::Bf16),
            Self::Mxfp4 { name, shape, .. } => (name.clone(), shape.to_vec(), Dtype::Bf16),
        };
        let cols = shape.last().copied().unwrap_or(1).max(1);
        SourceTensor { name, shape, kept, cols }
    }

    /// Decodes numbers from number `first` on.
    pub(super) fn read(&self, first: usize, out: &mut [f32]) {
        match self {
            Self::Plain(t) => {
                let decoded = t.read_f32(first, out);
                debug_assert!(decoded, "tensors of other dtypes go over verbatim");
            }
            Self::Fp8 { codes, factors, block, .. } => {
                let cols = codes.shape()[1];
                let across = cols.div_ceil(block[1]);
                for (i, o) in (first..).zip(out) {
                    let factor = factors[i / cols / block[0] * across + i % cols / block[1]];
                    *o = e4m3_to_f32(codes.bytes()[i]) * factor;
                }
            }
            Self::Mxfp4 { packed, scales, .. } => {
                for (i, o) in (first..).zip(out) {
                    let code = (packed.bytes()[i / 2] >> (i % 2 * 4)) & 15;
                    *o = E2M1[code as usize] * e8m0_to_f32(scales.bytes()[i / MXFP4_GROUP]);
                }
            }
        }
    }

    /// Integers, codes and scales that stay are copied.
    pub(super) fn verbatim(&self) -> Option<&Tensor> {
        let Self::Plain(t) = self else { return None };
        let float = matches!(t.dtype(), Dtype::Bf16 | Dtype::F16 | Dtype::F32) && t.name().ends_with(".weight");
        (!float).then_some(t)
    }

    pub(super) fn packed(&self) -> Option<Packed<'_>> {
        let Self::Mxfp4 { packed, scales, .. } = self else { return None };
        Some(Packed { codes: packed.bytes(), scales: scales.bytes() })
    }
}
