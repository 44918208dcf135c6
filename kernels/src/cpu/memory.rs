//! Zeroed memory on cache lines, that takes no pages before it is written.

use super::element::Plain;

/// Bytes of a cache line, and the alignment of the memory.
pub(crate) const LINE: usize = 64;

/// Bytes aligned to a cache line. The system's zeroed allocation is kept: an aligned one would write all of it.
#[derive(Debug)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    offset: usize,
    len: usize,
}

impl Lines {
    /// `len` zeros, rounded up to whole lines.
    pub(crate) fn zeros(len: usize) -> Self {
        let len = len.next_multiple_of(LINE);
        let bytes = vec![0u8; len + LINE - 1];
        let offset = bytes.as_ptr().align_offset(LINE);
        assert!(offset < LINE, "bytes can be aligned");
        Self { bytes, offset, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.offset..][..self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.offset..][..self.len]
    }

    /// Line by line.
    pub(crate) fn lines(&self) -> &[[u8; LINE]] {
        self.bytes().as_chunks().0
    }

    /// Line by line, for writing.
    pub(crate) fn lines_mut(&mut self) -> &mut [[u8; LINE]] {
        self.bytes_mut().as_chunks_mut().0
    }

    /// As numbers.
    pub(crate) fn elements<T: Plain>(&self) -> &[T] {
        let bytes = self.bytes();
        // SAFETY: `T` is plain numbers (the trait says so), at most a line's alignment, and the bytes are initialised.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
    }

    /// As numbers, for writing.
    pub(crate) fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        let bytes = self.bytes_mut();
        // SAFETY: as above, and the bytes are borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
    }
}
