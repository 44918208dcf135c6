//! One safetensors file, mapped into memory.

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

use super::error::{Problem, Problems, WeightsError};
use super::header::{HeaderEntry, read_header};

/// Maps a file for reading; the map lives as long as any slice of it.
pub(crate) fn map_file(path: &Path) -> Result<Bytes, WeightsError> {
    let file = File::open(path).map_err(WeightsError::io(path))?;
    // SAFETY: the map is read-only and nothing here writes to it. That no other process truncates a checkpoint while it
    // is being served is the operator's contract, as with every loader that maps weights.
    let map = unsafe { Mmap::map(&file) }.map_err(WeightsError::io(path))?;
    Ok(Bytes::from_owner(map))
}

/// Maps and checks a safetensors file.
pub(crate) fn open_shard(path: &Path) -> Result<(Bytes, Vec<HeaderEntry>), WeightsError> {
    let bytes = map_file(path)?;
    let entries = read_header(&bytes).map_err(|faults| {
        let problem = |(tensor, what)| Problem { file: path.to_owned(), tensor, what };
        WeightsError::Problems(Problems(faults.into_iter().map(problem).collect()))
    })?;
    Ok((bytes, entries))
}
