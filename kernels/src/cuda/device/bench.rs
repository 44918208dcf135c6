//! Launches outside of a model, for checking and timing kernels on a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;

use super::driver;
use super::kernels::Kernels;
use super::memory::Buffer;
use super::stream::Stream;
use crate::cuda::call::{Address, Arg, Call};
use crate::ops::DeviceError;

/// Bits of a made-up address that count bytes within a buffer; the buffer's number plus one is above.
const OFFSET_BITS: u32 = 40;

/// A device that runs lists of launches.
#[derive(Debug)]
pub struct Bench {
    kernels: Kernels,
    stream: Stream,
    context: Arc<CudaContext>,
}

impl Bench {
    /// Opens `cuda:ordinal` with compiled kernels.
    ///
    /// # Errors
    /// [`DeviceError`] where there is no driver, no such GPU, or the kernels are not for it.
    pub fn open(ordinal: usize, kernels: &[&[u8]]) -> Result<Self, DeviceError> {
        let context = driver::open(ordinal)?;
        Ok(Self { kernels: Kernels::load(&context, kernels)?, stream: Stream::new(&context)?, context })
    }

    /// Runs the launches once on copies of the buffers, and brings the copies' contents back. An address is the number of a buffer,
    /// from 1, times 2^40, plus an offset.
    ///
    /// # Errors
    /// [`DeviceError`] if anything failed; the device is then unusable.
    pub fn run(&mut self, buffers: &mut [Vec<u8>], calls: &[Call]) -> Result<(), DeviceError> {
        let memory = self.upload(buffers)?;
        self.launch(&placed(calls, &memory))?;
        for (bytes, buffer) in buffers.iter_mut().zip(&memory) {
            self.stream.download(buffer.at(), bytes)?;
        }
        Ok(())
    }

    /// Times the launches, which may have run any number of times before: each entry is the mean of `inner` runs.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn time(
        &mut self,
        buffers: &[Vec<u8>],
        calls: &[Call],
        (outer, inner): (u32, u32),
    ) -> Result<Vec<Duration>, DeviceError> {
        let memory = self.upload(buffers)?;
        let calls = placed(calls, &memory);
        self.launch(&calls)?;
        let mut times = Vec::new();
        for _ in 0..outer {
            let began = Instant::now();
            for _ in 0..inner {
                self.enqueue(&calls)?;
            }
            self.stream.finish()?;
            times.push(began.elapsed() / inner.max(1));
        }
        Ok(times)
    }

    /// Bytes read and written in a second by copies within the device's memory: the ceiling of what waits for memory. The best of
    /// several runs over `bytes`, which should be far larger than the caches.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn bandwidth(&mut self, bytes: usize) -> Result<f64, DeviceError> {
        let (from, to) = (Buffer::zeroed(&self.context, bytes)?, Buffer::zeroed(&self.context, bytes)?);
        let mut best = Duration::MAX;
        for _ in 0..8 {
            let began = Instant::now();
            for _ in 0..4 {
                self.stream.copy(from.at(), to.at(), bytes)?;
            }
            self.stream.finish()?;
            best = best.min(began.elapsed() / 4);
        }
        Ok(2.0 * bytes as f64 / best.as_secs_f64())
    }

    fn upload(&self, buffers: &[Vec<u8>]) -> Result<Vec<Buffer>, DeviceError> {
        buffers.iter().map(|bytes| Buffer::of(&self.context, bytes)).collect()
    }

    fn enqueue(&mut self, calls: &[Call]) -> Result<(), DeviceError> {
        calls.iter().try_for_each(|call| self.kernels.launch(&self.stream, call))
    }

    fn launch(&mut self, calls: &[Call]) -> Result<(), DeviceError> {
        self.stream.bind()?;
        self.enqueue(calls)?;
        self.stream.finish()
    }
}

/// Launches with real addresses.
fn placed(calls: &[Call], memory: &[Buffer]) -> Vec<Call> {
    let place = |at: Address| {
        let (buffer, offset) = (at.0 >> OFFSET_BITS, at.0 & ((1 << OFFSET_BITS) - 1));
        let found = usize::try_from(buffer).ok().and_then(|n| n.checked_sub(1)).and_then(|n| memory.get(n));
        found.map_or(Address::NULL, |buffer| buffer.at().plus(offset as usize))
    };
    let mut calls = calls.to_vec();
    for arg in calls.iter_mut().flat_map(|call| &mut call.args) {
        if let Arg::At(at) = arg {
            *at = place(*at);
        }
    }
    calls
}
