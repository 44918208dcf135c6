//! GGUF files, memory-mapped: key-value metadata and tensors, read only as far as an import needs.

mod blocks;
mod header;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::error::WeightsError;
use super::shard::map_file;

pub use blocks::TensorType;
pub use header::{GgufValue, parse_gguf};

/// One tensor of a GGUF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// Name, as llama.cpp gives it: "blk.0.attn_q.weight".
    pub name: String,
    /// Dimensions, slowest first (the file keeps them the other way round).
    pub shape: Vec<usize>,
    /// Number format.
    pub kind: TensorType,
    /// Bytes, from the start of the file.
    pub range: std::ops::Range<usize>,
}

/// A mapped GGUF file.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    bytes: Bytes,
    metadata: BTreeMap<String, GgufValue>,
    tensors: Vec<GgufTensor>,
}

impl Gguf {
    /// Maps a file and reads its header.
    ///
    /// # Errors
    /// When the file can't be read, is not GGUF version 2 or 3, or a tensor is of a type that is not supported.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let bytes = map_file(path)?;
        let (metadata, tensors) = parse_gguf(&bytes).map_err(|what| WeightsError::file(path, what))?;
        Ok(Self { path: path.to_owned(), bytes, metadata, tensors })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tensors in file order.
    #[must_use]
    pub fn tensors(&self) -> &[GgufTensor] {
        &self.tensors
    }

    /// A metadata value.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&GgufValue> {
        self.metadata.get(key)
    }

    /// A non-negative integer.
    #[must_use]
    pub fn integer(&self, key: &str) -> Option<u64> {
        match self.metadata.get(key)? {
            GgufValue::Unsigned(v) => Some(*v),
            GgufValue::Signed(v) => (*v).try_into().ok(),
            _ => None,
        }
    }

    /// A floating-point number.
    #[must_use]
    pub fn float(&self, key: &str) -> Option<f32> {
        match self.metadata.get(key)? {
            GgufValue::Float(v) => Some(*v),
            _ => None,
        }
    }

    /// A string.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key)? {
            GgufValue::Text(v) => Some(v),
            _ => None,
        }
    }

    /// A list of values.
    #[must_use]
    pub fn list(&self, key: &str) -> Option<&[GgufValue]> {
        match self.metadata.get(key)? {
            GgufValue::List(v) => Some(v),
            _ => None,
        }
    }

    /// Decodes `out.len()` elements of a tensor from element `first` on; both are multiples of the row length.
    ///
    /// # Panics
    /// When the range passes the tensor's end.
    pub fn read(&self, tensor: &GgufTensor, first: usize, out: &mut [f32]) {
        let bytes = &self.bytes[tensor.range.clone()];
        let (from, to) = (tensor.kind.bytes(first), tensor.kind.bytes(first + out.len()));
        tensor.kind.decode(&bytes[from..to], out);
    }
}
