//! Buffers that several threads write at once, each its own part.

use std::marker::PhantomData;

/// A slice whose parts are lent to threads for writing.
pub(crate) struct Split<'a, T> {
    start: *mut T,
    len: usize,
    lent: PhantomData<&'a mut [T]>,
}

// SAFETY: access goes through `part`, whose callers promise that parts in use at one time don't overlap.
unsafe impl<T: Send> Sync for Split<'_, T> {}

impl<'a, T> Split<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), lent: PhantomData }
    }

    /// Elements `from..from + len`.
    ///
    /// # Safety
    /// No other part in use at the same time may overlap this one.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub(crate) unsafe fn part(&self, from: usize, len: usize) -> &mut [T] {
        assert!(from <= self.len && len <= self.len - from, "part {from}+{len} of {}", self.len);
        // SAFETY: inside the slice (checked), and not aliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), len) }
    }
}
