//! A device that engines have one after another, with its knobs turned between them.

use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use sluicegate_kernels::cpu::Cpu;
use sluicegate_kernels::cuda::device::Cuda;

use crate::exec::{CacheReader, CacheSpec, Capacity, ExecError, Executor, ModelSpec, Plan, Sampled};
use crate::layers::LoadError;
use crate::run::{CpuRunOptions, CudaRunOptions, DeviceId, Knobs, Runner, open_cpu, open_cuda};

/// An executor whose knobs can be turned between steps.
pub trait Tunable: Executor {
    /// Turns them. Without effect on a device that has none.
    fn tune(&mut self, knobs: Knobs);
}

impl Tunable for Runner<Cuda> {
    fn tune(&mut self, knobs: Knobs) {
        Self::tune(self, knobs);
    }
}

impl Tunable for Runner<Cpu> {
    fn tune(&mut self, _: Knobs) {}
}

/// A device that goes back to its owner when the engine that has it ends.
pub(super) struct Lent {
    device: Option<Box<dyn Tunable>>,
    model: ModelSpec,
    back: Sender<Box<dyn Tunable>>,
}

impl Lent {
    pub(super) fn new(device: Box<dyn Tunable>) -> (Self, Receiver<Box<dyn Tunable>>) {
        let (back, owner) = channel();
        let model = device.model().clone();
        (Self { device: Some(device), model, back }, owner)
    }

    fn device(&self) -> &dyn Tunable {
        &**self.device.as_ref().expect("it is here until it is dropped")
    }

    fn device_mut(&mut self) -> &mut dyn Tunable {
        &mut **self.device.as_mut().expect("it is here until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(device) = self.device.take() {
            // An owner that is gone wants it no more.
            let _ = self.back.send(device);
        }
    }
}

impl Executor for Lent {
    fn model(&self) -> &ModelSpec {
        &self.model
    }

    fn capacity(&self) -> Capacity {
        self.device().capacity()
    }

    fn run(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError> {
        self.device_mut().run(plan, out)
    }

    fn reset_slot(&mut self, slot: u32) {
        self.device_mut().reset_slot(slot);
    }

    fn write_pools(&mut self, block: u32, pools: Range<usize>, bytes: &[u8]) {
        self.device_mut().write_pools(block, pools, bytes);
    }

    fn write_state(&mut self, slot: u32, bytes: &[u8]) {
        self.device_mut().write_state(slot, bytes);
    }
}

impl CacheReader for Lent {
    fn cache(&self) -> &CacheSpec {
        &self.model.cache
    }

    fn read_pools(&self, block: u32, pools: Range<usize>, out: &mut [u8]) {
        self.device().read_pools(block, pools, out);
    }

    fn read_state(&self, slot: u32, out: &mut [u8]) {
        self.device().read_state(slot, out);
    }
}

/// Opens a model folder on a device, to tune it.
///
/// # Errors
/// What is wrong with the checkpoint or the device.
pub fn open(dir: &Path, device: DeviceId, options: &CpuRunOptions) -> Result<Box<dyn Tunable>, LoadError> {
    Ok(match device {
        DeviceId::Cpu => Box::new(open_cpu(dir, options)?),
        DeviceId::Cuda(ordinal) => Box::new(open_cuda(dir, &CudaRunOptions::of(ordinal, options))?),
    })
}
