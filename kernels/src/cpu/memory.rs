//! Zeroed memory on cache lines, that takes no pages before it is written.

use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions};

use super::element::Plain;

/// Bytes of a cache line, and the alignment of the memory.
pub(crate) const LINE: usize = 64;

/// Bytes that weights are taken from at a time.
const SLAB: usize = 32 << 20;

/// Bytes aligned to a cache line.
#[derive(Debug)]
pub(crate) struct Lines {
    owner: Owner,
    offset: usize,
    len: usize,
}

#[derive(Debug)]
enum Owner {
    Bytes(Vec<u8>),
    Slab(Arc<Slab>),
}

/// A mapping whose parts belong to different [`Lines`].
#[derive(Debug)]
struct Slab {
    start: *mut u8,
    /// Kept for its memory, which is reached by `start` alone.
    _map: MmapMut,
}

// SAFETY: the mapping stays where it is as long as the slab lives, and each part has one owner, to whom borrowing rules apply.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

/// Memory for weights, on huge pages where the system has them: a step reads all of it, and processors fetch ahead within a page
/// only (measured: 23 instead of 16 GB/s).
#[derive(Debug, Default)]
pub(crate) struct Arena {
    /// The present slab, what is taken of it, and its size.
    slab: Option<(Arc<Slab>, usize, usize)>,
    bytes: usize,
}

impl Arena {
    /// `len` zeros, rounded up to whole lines.
    pub(crate) fn zeros(&mut self, len: usize) -> Lines {
        let len = len.next_multiple_of(LINE);
        self.bytes += len;
        if self.slab.as_ref().is_none_or(|(_, taken, size)| size - taken < len) {
            self.slab = map(len.max(SLAB));
        }
        match &mut self.slab {
            Some((slab, taken, _)) => {
                let offset = *taken;
                *taken += len;
                Lines { owner: Owner::Slab(Arc::clone(slab)), offset, len }
            }
            None => Lines::zeros(len),
        }
    }

    /// Bytes that were given out.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A new slab, if the system grants it.
fn map(size: usize) -> Option<(Arc<Slab>, usize, usize)> {
    let mut map = MmapOptions::new().len(size).map_anon().ok()?;
    // Without huge pages it works as well, if slower.
    #[cfg(target_os = "linux")]
    drop(map.advise(memmap2::Advice::HugePage));
    Some((Arc::new(Slab { start: map.as_mut_ptr(), _map: map }), 0, size))
}

impl Lines {
    /// `len` zeros, rounded up to whole lines. The system's zeroed allocation is kept: an aligned one would write all of it.
    pub(crate) fn zeros(len: usize) -> Self {
        let len = len.next_multiple_of(LINE);
        let bytes = vec![0u8; len + LINE - 1];
        let offset = bytes.as_ptr().align_offset(LINE);
        assert!(offset < LINE, "bytes can be aligned");
        Self { owner: Owner::Bytes(bytes), offset, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.owner {
            Owner::Bytes(bytes) => &bytes[self.offset..][..self.len],
            // SAFETY: the arena gave these bytes of the slab, which is zeroed and alive, to this owner alone.
            Owner::Slab(slab) => unsafe { std::slice::from_raw_parts(slab.start.add(self.offset), self.len) },
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.owner {
            Owner::Bytes(bytes) => &mut bytes[self.offset..][..self.len],
            // SAFETY: as above, and the owner is borrowed for writing.
            Owner::Slab(slab) => unsafe { std::slice::from_raw_parts_mut(slab.start.add(self.offset), self.len) },
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_arena_are_zero_aligned_and_apart() {
        let mut arena = Arena::default();
        let mut parts: Vec<Lines> = [1, 64, 1000, SLAB - 1, 3 * SLAB, 5].map(|len| arena.zeros(len)).into();
        for (i, lines) in parts.iter_mut().enumerate() {
            assert!(lines.bytes().len().is_multiple_of(LINE) && lines.bytes().as_ptr().align_offset(LINE) == 0);
            assert!(lines.bytes().iter().all(|b| *b == 0));
            lines.bytes_mut().fill(i as u8 + 1);
        }
        drop(arena);
        for (i, lines) in parts.iter().enumerate() {
            assert!(lines.bytes().iter().all(|b| *b == i as u8 + 1));
        }
    }
}
