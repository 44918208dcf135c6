//! Writes a safetensors file whose tensors' shapes are known beforehand and whose bytes arrive in any order.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use super::Dtype;
use super::error::WeightsError;

/// A tensor to be written.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
}

impl Planned {
    pub(crate) fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bits().unwrap_or(8) / 8
    }
}

/// A file being written beside its final name; [`TensorFile::finish`] moves it there.
#[derive(Debug)]
pub(crate) struct TensorFile {
    partial: PathBuf,
    path: PathBuf,
    file: File,
    /// Name, place of the next byte, bytes still missing.
    open: HashMap<String, (u64, usize)>,
}

impl TensorFile {
    /// Writes the header. Wider elements come first, so that every tensor is aligned to its element size.
    pub(crate) fn create(path: &Path, mut tensors: Vec<Planned>) -> Result<Self, WeightsError> {
        tensors.sort_by(|a, b| (b.dtype.bits(), &a.name).cmp(&(a.dtype.bits(), &b.name)));
        let mut header = Map::new();
        header.insert("__metadata__".into(), json!({"format": "pt"}));
        let mut open = HashMap::new();
        let mut at = 0;
        for t in &tensors {
            let end = at + t.bytes();
            let entry = json!({"dtype": t.dtype.name(), "shape": t.shape, "data_offsets": [at, end]});
            header.insert(t.name.clone(), entry);
            open.insert(t.name.clone(), (at as u64, t.bytes()));
            at = end;
        }
        let mut text = serde_json::Value::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let base = 8 + text.len() as u64;
        open.values_mut().for_each(|(start, _)| *start += base);
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let write = || {
            let mut file = File::create(&partial)?;
            file.write_all(&(text.len() as u64).to_le_bytes())?;
            file.write_all(&text)?;
            Ok(file)
        };
        let file = write().map_err(WeightsError::io(&partial))?;
        Ok(Self { partial, path: path.to_owned(), file, open })
    }

    /// Appends bytes to a tensor.
    ///
    /// # Panics
    /// When the tensor was not planned or is full already: a bug of the conversion.
    pub(crate) fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), WeightsError> {
        let (at, left) = self.open.get_mut(name).expect("a planned tensor");
        assert!(bytes.len() <= *left, "tensor {name} overflows its plan");
        let mut write = || {
            self.file.seek(SeekFrom::Start(*at))?;
            self.file.write_all(bytes)
        };
        write().map_err(WeightsError::io(&self.partial))?;
        *at += bytes.len() as u64;
        *left -= bytes.len();
        Ok(())
    }

    /// Makes the file durable under its final name.
    ///
    /// # Panics
    /// When a tensor is incomplete: a bug of the conversion.
    pub(crate) fn finish(self) -> Result<(), WeightsError> {
        assert!(self.open.values().all(|(_, left)| *left == 0), "a tensor was not written");
        self.file.sync_all().map_err(WeightsError::io(&self.partial))?;
        std::fs::rename(&self.partial, &self.path).map_err(WeightsError::io(&self.path))
    }
}
