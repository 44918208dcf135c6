//! The device's one stream: copies, launches, recordings.

use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};

use super::driver::failed;
use super::memory::{Pinned, Plain};
use crate::cuda::call::Address;
use crate::ops::DeviceError;

/// Work in order.
#[derive(Debug)]
pub(super) struct Stream {
    context: Arc<CudaContext>,
    handle: sys::CUstream,
}

// SAFETY: a stream may be used from any thread that has its context current; every method sees to that.
unsafe impl Send for Stream {}

impl Stream {
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, DeviceError> {
        context.bind_to_thread().map_err(failed("using the context"))?;
        let handle =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(failed("making a stream"))?;
        Ok(Self { context: Arc::clone(context), handle })
    }

    /// Makes the context current in the calling thread.
    pub(super) fn bind(&self) -> Result<(), DeviceError> {
        self.context.bind_to_thread().map_err(failed("using the context"))
    }

    pub(super) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    /// Waits until everything is done. What failed since the last time is told here.
    pub(super) fn finish(&self) -> Result<(), DeviceError> {
        self.bind()?;
        // SAFETY: the stream exists as long as this value.
        unsafe { result::stream::synchronize(self.handle) }.map_err(failed("running a step"))
    }

    /// Copies the first `len` numbers to the device.
    pub(super) fn upload<T: Plain>(&self, from: &mut Pinned<T>, len: usize, to: Address) -> Result<(), DeviceError> {
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the target has room for all of `from`, which lives as long as the device and is not touched before the
        // step has been waited for.
        unsafe { result::memcpy_htod_async(to.0, &from.values()[..len], self.handle) }
            .map_err(failed("uploading a step"))
    }

    /// Copies numbers from the device and waits for them.
    pub(super) fn download<T: Plain>(&self, from: Address, to: &mut [T]) -> Result<(), DeviceError> {
        self.bind()?;
        if to.is_empty() {
            return self.finish();
        }
        // SAFETY: the caller gives an address with as many numbers behind it; `finish` ends the copy before `to` is used.
        unsafe { result::memcpy_dtoh_async(to, from.0, self.handle) }.map_err(failed("reading back"))?;
        self.finish()
    }

    /// Copies bytes to the device and waits until they are there.
    pub(super) fn write(&self, from: &[u8], to: Address) -> Result<(), DeviceError> {
        self.bind()?;
        if !from.is_empty() {
            // SAFETY: the caller gives an address with as much memory behind it; `finish` ends the copy before `from` may go.
            unsafe { result::memcpy_htod_async(to.0, from, self.handle) }.map_err(failed("writing"))?;
        }
        self.finish()
    }

    /// Copies within the device.
    pub(super) fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<(), DeviceError> {
        self.bind()?;
        // SAFETY: the caller gives addresses with as much memory behind them, which lives until `finish`.
        unsafe { result::memcpy_dtod_async(to.0, from.0, bytes, self.handle) }.map_err(failed("copying"))
    }

    /// What `work` puts in the stream, recorded instead of done, ready to be repeated.
    pub(super) fn record(&self, work: impl FnOnce() -> Result<(), DeviceError>) -> Result<Recording, DeviceError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream exists as long as this value.
        unsafe { result::stream::begin_capture(self.handle, mode) }.map_err(failed("recording a step"))?;
        let done = work();
        // SAFETY: the stream exists; the graph is destroyed below, once. Recording ends even if the work failed.
        let graph = unsafe { result::stream::end_capture(self.handle) };
        done?;
        let graph = graph.map_err(failed("recording a step"))?;
        let flags = sys::CUgraphInstantiate_flags(0);
        // SAFETY: the graph was just made.
        let executable = unsafe { result::graph::instantiate(graph, flags) }.map_err(failed("preparing a recording"));
        // SAFETY: an executable graph does not need its source.
        unsafe { result::graph::destroy(graph) }.map_err(failed("preparing a recording"))?;
        let recording = Recording { context: Arc::clone(&self.context), executable: executable? };
        // SAFETY: both exist.
        unsafe { result::graph::upload(recording.executable, self.handle) }.map_err(failed("uploading a recording"))?;
        Ok(recording)
    }

    pub(super) fn replay(&self, recording: &Recording) -> Result<(), DeviceError> {
        // SAFETY: both exist; the memory that the recording names lives as long as the device.
        unsafe { result::graph::launch(recording.executable, self.handle) }.map_err(failed("launching a recording"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.bind().is_ok() {
            // SAFETY: made by `new`, destroyed once.
            let _ = unsafe { result::stream::destroy(self.handle) };
        }
    }
}

/// A step's launches as a CUDA graph.
#[derive(Debug)]
pub(super) struct Recording {
    context: Arc<CudaContext>,
    executable: sys::CUgraphExec,
}

// SAFETY: used by one thread at a time, with its context current.
unsafe impl Send for Recording {}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: instantiated once, destroyed once.
            let _ = unsafe { result::graph::exec_destroy(self.executable) };
        }
    }
}
