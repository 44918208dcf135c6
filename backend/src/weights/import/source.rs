//! What an import reads from: tensors under Hugging Face names whose rows decode to F32, and the files around them.

use serde_json::Value;

use super::super::{Dtype, Tensor, WeightsError};

/// A tensor of the source model.
#[derive(Clone, Debug)]
pub(super) struct SourceTensor {
    /// Name in the new folder.
    pub(super) name: String,
    /// Dimensions, slowest first.
    pub(super) shape: Vec<usize>,
    /// Dtype in the new folder when it is not quantized.
    pub(super) kept: Dtype,
    /// Elements per row for reading; rows decode independently.
    pub(super) cols: usize,
}

impl SourceTensor {
    pub(super) fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A weight in MXFP4.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed<'a> {
    /// Two E2M1 codes a byte, row-major.
    pub(super) codes: &'a [u8],
    /// E8M0, one for each 32 numbers.
    pub(super) scales: &'a [u8],
}

/// A file to be written beside the weights: name and contents.
pub(super) type Companion = (String, Vec<u8>);

pub(super) trait Source {
    /// All tensors.
    fn tensors(&self) -> &[SourceTensor];
    /// Decodes whole rows of a tensor, from `first_row` on.
    fn read(&self, index: usize, first_row: usize, out: &mut [f32]);
    /// The stored tensor, where its bytes go over unchanged.
    fn verbatim(&self, index: usize) -> Option<&Tensor>;
    /// Codes and scales of a weight in MXFP4, which have an exact counterpart in NVFP4.
    fn mxfp4(&self, _index: usize) -> Option<Packed<'_>> {
        None
    }
    /// config.json of the unquantized model.
    fn config(&self) -> &Value;
    /// Tokenizer and generation files.
    fn companions(&self) -> Result<Vec<Companion>, WeightsError>;
}
