//! Device memory and pinned host memory, freed when dropped.

use std::sync::Arc;

use cudarc::driver::{CudaContext, result};

use super::driver::failed;
use crate::cuda::call::Address;
use crate::ops::DeviceError;

/// Device memory of its own. From `cuMemAlloc`, so that it can be shown to another process.
#[derive(Debug)]
pub(super) struct Buffer {
    context: Arc<CudaContext>,
    at: u64,
    bytes: usize,
}

impl Buffer {
    /// Memory of zeros.
    pub(super) fn zeroed(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, DeviceError> {
        let buffer = Self::new(context, bytes)?;
        // SAFETY: the memory is `bytes` long and nothing else uses it yet.
        unsafe { result::memset_d8_sync(buffer.at, 0, buffer.bytes) }.map_err(failed("clearing memory"))?;
        Ok(buffer)
    }

    /// A copy of host memory.
    pub(super) fn of(context: &Arc<CudaContext>, bytes: &[u8]) -> Result<Self, DeviceError> {
        let buffer = Self::new(context, bytes.len())?;
        // SAFETY: the memory is as long as `bytes` and nothing else uses it yet.
        unsafe { result::memcpy_htod_sync(buffer.at, bytes) }.map_err(failed("uploading"))?;
        Ok(buffer)
    }

    fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, DeviceError> {
        context.bind_to_thread().map_err(failed("using the context"))?;
        let bytes = bytes.max(1);
        // SAFETY: the address is used by this buffer alone, until it is dropped.
        let at = unsafe { result::malloc_sync(bytes) }.map_err(failed(&format!("allocating {bytes} bytes")))?;
        Ok(Self { context: Arc::clone(context), at, bytes })
    }

    pub(super) fn at(&self) -> Address {
        Address(self.at)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A failure here means that the context is lost, and its memory with it.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `new`, freed once. Freeing waits for work that is still using it.
            let _ = unsafe { result::free_sync(self.at) };
        }
    }
}

/// A number that any bytes make.
pub(super) trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for f32 {}

/// Host memory that the device reads and writes directly; cached, so that reading it is fast too.
#[derive(Debug)]
pub(super) struct Pinned<T> {
    context: Arc<CudaContext>,
    at: *mut T,
    len: usize,
}

// SAFETY: plain memory with one owner; only the context is shared, and that is thread-safe.
unsafe impl<T: Plain + Send> Send for Pinned<T> {}

impl<T: Plain> Pinned<T> {
    pub(super) fn zeroed(context: &Arc<CudaContext>, len: usize) -> Result<Self, DeviceError> {
        context.bind_to_thread().map_err(failed("using the context"))?;
        let bytes = len.max(1) * size_of::<T>();
        // SAFETY: the memory is used by this value alone, until it is dropped.
        let at = unsafe { result::malloc_host(bytes, 0) }.map_err(failed(&format!("pinning {bytes} bytes")))?;
        // SAFETY: just allocated, `bytes` long.
        unsafe { at.cast::<u8>().write_bytes(0, bytes) };
        Ok(Self { context: Arc::clone(context), at: at.cast(), len })
    }

    /// Contents. No copy from or to it may be in flight.
    pub(super) fn values(&mut self) -> &mut [T] {
        // SAFETY: allocated for `len` numbers, initialised, aligned to a page; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `zeroed`, freed once.
            let _ = unsafe { result::free_host(self.at.cast()) };
        }
    }
}
