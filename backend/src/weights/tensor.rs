//! A view of one stored tensor that keeps its file mapped.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use half::{bf16, f16};

use super::{Dtype, HeaderEntry};

/// A stored tensor: cheap to clone, bytes stay in the page cache.
#[derive(Clone, Debug)]
pub struct Tensor {
    name: Arc<str>,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Bytes,
    file: Arc<Path>,
}

impl Tensor {
    /// `whole` is the file that `entry` was read from.
    pub(crate) fn new(file: &Arc<Path>, whole: &Bytes, entry: &HeaderEntry) -> Self {
        Self {
            name: entry.name.as_str().into(),
            dtype: entry.dtype.clone(),
            shape: entry.shape.clone(),
            bytes: whole.slice(entry.start..entry.end),
            file: Arc::clone(file),
        }
    }

    /// Stands in for a tensor that could not be found; never leaves [`super::Checkpoint::load`].
    pub(crate) fn absent(name: &str) -> Self {
        Self { name: name.into(), dtype: Dtype::F32, shape: vec![0], bytes: Bytes::new(), file: Path::new("").into() }
    }

    /// Name in the checkpoint.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Element type.
    #[must_use]
    pub fn dtype(&self) -> &Dtype {
        &self.dtype
    }

    /// Dimensions, slowest first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The stored bytes, little endian, row-major; a clone shares them.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The file it is in.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All elements of a BF16, F16 or F32 tensor, exactly; `None` for other dtypes.
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        let mut out = vec![0.0; self.elements()];
        self.read_f32(0, &mut out).then_some(out)
    }

    /// Reads `out.len()` elements of a BF16, F16 or F32 tensor from element `first` on; false for other dtypes.
    ///
    /// # Panics
    /// When the range passes the tensor's end.
    #[must_use]
    pub fn read_f32(&self, first: usize, out: &mut [f32]) -> bool {
        let width = match self.dtype {
            Dtype::Bf16 | Dtype::F16 => 2,
            Dtype::F32 => 4,
            _ => return false,
        };
        let bytes = &self.bytes()[first * width..(first + out.len()) * width];
        match self.dtype {
            Dtype::Bf16 => fill(bytes, out, |b: [u8; 2]| bf16::from_le_bytes(b).to_f32()),
            Dtype::F16 => fill(bytes, out, |b: [u8; 2]| f16::from_le_bytes(b).to_f32()),
            _ => fill(bytes, out, f32::from_le_bytes),
        }
        true
    }

    /// All elements of an I64 or I32 tensor; `None` for other dtypes.
    #[must_use]
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        let mut out = vec![0; self.elements()];
        match self.dtype {
            Dtype::I64 => fill(self.bytes(), &mut out, i64::from_le_bytes),
            Dtype::I32 => fill(self.bytes(), &mut out, |b: [u8; 4]| i64::from(i32::from_le_bytes(b))),
            _ => return None,
        }
        Some(out)
    }

    /// The single element of an F32 scalar or one-element tensor.
    #[must_use]
    pub fn scalar_f32(&self) -> Option<f32> {
        if self.dtype != Dtype::F32 {
            return None;
        }
        Some(f32::from_le_bytes(self.bytes[..].try_into().ok()?))
    }
}

fn fill<const N: usize, T>(bytes: &[u8], out: &mut [T], decode: impl Fn([u8; N]) -> T) {
    let (chunks, _) = bytes.as_chunks::<N>();
    for (o, &c) in out.iter_mut().zip(chunks) {
        *o = decode(c);
    }
}
