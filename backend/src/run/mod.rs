//! The executor: one device with one model, that checks plans, runs them and draws tokens.

mod check;
mod cuda;
mod device;
mod fp4;
mod open;

pub use cuda::{CudaRunOptions, Gpu, Knobs, cuda_version, embedded_kernels, gpus, open_cuda};
pub use device::{DeviceId, open};
pub use open::{CpuRunOptions, open_cpu};
pub use sluicegate_kernels::cpu::{Arithmetic, Isa};

use std::ops::Range;

use sluicegate_kernels::batch::{Batch, Extent, Pass};
use sluicegate_kernels::ops::{DeviceError, HostRows, Ops, Step};

use crate::draft::{Drafter, Mtp};
use crate::exec::{CacheReader, CacheSpec, Capacity, ExecError, Executor, ModelSpec, PeerPools, Plan, Sampled, Watch};
use crate::layers::Caches;
use crate::models::Model;
use crate::sample;
use check::Checker;

/// Runs plans on a device.
#[derive(Debug)]
pub struct Runner<D> {
    device: D,
    model: Model,
    caches: Caches,
    spec: ModelSpec,
    capacity: Capacity,
    checker: Checker,
    extents: Vec<Extent>,
    samples: Vec<u32>,
    scratch: sample::Scratch,
    seen: sample::Seen,
    drawn: Vec<u32>,
}

impl<D: Ops> Runner<D> {
    pub(crate) fn new(device: D, model: Model, caches: Caches, spec: ModelSpec, capacity: Capacity) -> Self {
        Self {
            device,
            model,
            caches,
            checker: Checker::new(&spec, capacity),
            spec,
            capacity,
            extents: Vec::with_capacity(capacity.sequences as usize),
            samples: Vec::with_capacity(capacity.sequences as usize),
            scratch: sample::Scratch::default(),
            seen: sample::Seen::default(),
            drawn: Vec::new(),
        }
    }

    /// The device, to look at.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Runs a plan without drawing tokens and shows the logits of its sample rows: for tests and for measuring quality.
    ///
    /// # Errors
    /// See [`ExecError`].
    pub fn logits(&mut self, plan: &Plan) -> Result<HostRows<'_>, ExecError> {
        self.pass(plan, Pass::Model, &mut ())
    }

    /// The same for the drafting layer; see [`Executor::draft`].
    ///
    /// # Errors
    /// See [`ExecError`].
    pub fn draft_logits(&mut self, plan: &Plan) -> Result<HostRows<'_>, ExecError> {
        self.can_draft(plan)?;
        self.pass(plan, Pass::Draft, &mut ())
    }

    fn can_draft(&self, plan: &Plan) -> Result<(), ExecError> {
        if self.model.drafts() && plan.sequences.iter().all(|s| s.rows == 1 && s.start > 0) {
            return Ok(());
        }
        let what = "a draft takes a drafting layer, and of each sequence one row that is not its first";
        Err(ExecError::BadPlan(what.into()))
    }

    fn draw(
        &mut self,
        plan: &Plan,
        pass: Pass,
        out: &mut Vec<Sampled>,
        watch: &mut dyn Watch,
    ) -> Result<(), ExecError> {
        out.clear();
        if pass == Pass::Draft {
            self.can_draft(plan)?;
        }
        if plan.samples.iter().any(|row| sample::is_for_device(row, &self.device)) {
            return self.draw_there(plan, pass, out, watch);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut logits = self.pass(plan, pass, watch)?;
        for (i, row) in plan.samples.iter().enumerate() {
            out.push(sample::sample(logits.row(i), row, &mut scratch));
        }
        self.scratch = scratch;
        Ok(())
    }

    /// Lets the device draw what it can, and draws the rest from the rows that it shows.
    fn draw_there(
        &mut self,
        plan: &Plan,
        pass: Pass,
        out: &mut Vec<Sampled>,
        watch: &mut dyn Watch,
    ) -> Result<(), ExecError> {
        self.forward(plan, pass, watch)?;
        let Self { device, model, seen, scratch, drawn, .. } = self;
        seen.count(&plan.samples, device);
        let asked = seen.asked(&plan.samples);
        let mut here = Vec::new();
        let mut shown = |row: usize, logits: &mut [f32]| here.push(sample::sample(logits, &plan.samples[row], scratch));
        device.draw(model.logits(), &asked, drawn, &mut shown).map_err(failed)?;
        let mut here = here.into_iter();
        let rows = plan.samples.iter().zip(asked).zip(drawn);
        out.extend(rows.map(|((row, asked), token)| match asked {
            Some(_) => Sampled { id: sample::drawn(*token, row), logprobs: None },
            None => here.next().unwrap_or(Sampled { id: 0, logprobs: None }),
        }));
        Ok(())
    }

    fn pass(&mut self, plan: &Plan, pass: Pass, watch: &mut dyn Watch) -> Result<HostRows<'_>, ExecError> {
        self.forward(plan, pass, watch)?;
        self.device.host(self.model.logits()).map_err(failed)
    }

    fn forward(&mut self, plan: &Plan, pass: Pass, watch: &mut dyn Watch) -> Result<(), ExecError> {
        self.checker.check(plan).map_err(ExecError::BadPlan)?;
        self.extents.clear();
        self.extents.extend(plan.sequences.iter().map(|s| Extent {
            row: s.row,
            rows: s.rows,
            start: s.start,
            table: s.table,
            table_len: s.table_len,
            slot: s.slot,
        }));
        self.samples.clear();
        self.samples.extend(plan.samples.iter().map(|s| s.row));
        let batch = Batch {
            tokens: &plan.tokens,
            extents: &self.extents,
            block_tables: &plan.block_tables,
            samples: &self.samples,
            pass,
        };
        if self.device.begin(&batch).map_err(failed)? == Step::Run {
            let Self { device, model, caches, .. } = self;
            let is_eager = device.is_eager();
            let mut after = |device: &D, layer: u32| {
                if is_eager {
                    watch.layers_done(layer + 1, &Held { device, caches });
                }
            };
            match pass {
                Pass::Model => model.forward(device, &mut after),
                Pass::Draft => model.draft(device),
            }
        }
        Ok(())
    }
}

fn failed(error: DeviceError) -> ExecError {
    ExecError::Device(error.0)
}

impl<D: Ops> Executor for Runner<D> {
    fn model(&self) -> &ModelSpec {
        &self.spec
    }

    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn run(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError> {
        self.draw(plan, Pass::Model, out, &mut ())
    }

    fn run_watched(&mut self, plan: &Plan, out: &mut Vec<Sampled>, watch: &mut dyn Watch) -> Result<(), ExecError> {
        self.draw(plan, Pass::Model, out, watch)
    }

    fn draft(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError> {
        self.draw(plan, Pass::Draft, out, &mut ())
    }

    fn drafter(&self) -> Option<Box<dyn Drafter>> {
        self.model.drafts().then(|| Box::new(Mtp::default()) as Box<dyn Drafter>)
    }

    fn reset_slot(&mut self, slot: u32) {
        for (state, spec) in self.caches.states.iter().zip(&self.caches.spec.states) {
            // Once per sequence, so the zeros need not be kept.
            self.device.write_state(*state, slot, &vec![0; spec.bytes as usize]);
        }
    }

    fn write_pools(&mut self, block: u32, pools: Range<usize>, bytes: &[u8]) {
        let mut rest = bytes;
        for (pool, at) in self.caches.pools[pools.clone()].iter().zip(pools) {
            let (part, after) = rest.split_at(self.caches.spec.pool_bytes(at..at + 1));
            self.device.write_block(*pool, block, part);
            rest = after;
        }
    }

    fn write_state(&mut self, slot: u32, bytes: &[u8]) {
        let mut rest = bytes;
        for (state, spec) in self.caches.states.iter().zip(&self.caches.spec.states) {
            let (part, after) = rest.split_at(spec.bytes as usize);
            self.device.write_state(*state, slot, part);
            rest = after;
        }
    }

    fn export(&mut self, nonce: [u8; 16]) -> Result<Vec<u8>, ExecError> {
        self.device.export(nonce).map_err(failed)
    }

    fn reach(&mut self, export: &[u8]) -> Result<PeerPools, ExecError> {
        self.device.reach(export).map_err(failed)
    }

    fn pull_pools(
        &mut self,
        from: &PeerPools,
        (theirs, mine): (u32, u32),
        pools: Range<usize>,
    ) -> Result<(), ExecError> {
        let pools = self.caches.pools[pools].iter();
        pools.copied().try_for_each(|pool| self.device.pull_block(from, pool, theirs, mine)).map_err(failed)
    }

    fn settle(&mut self) -> Result<(), ExecError> {
        self.device.settle().map_err(failed)
    }
}

impl<D: Ops> CacheReader for Runner<D> {
    fn cache(&self) -> &CacheSpec {
        &self.caches.spec
    }

    fn read_pools(&self, block: u32, pools: Range<usize>, out: &mut [u8]) {
        Held { device: &self.device, caches: &self.caches }.read_pools(block, pools, out);
    }

    fn read_state(&self, slot: u32, out: &mut [u8]) {
        Held { device: &self.device, caches: &self.caches }.read_state(slot, out);
    }
}

/// What a device holds, while the rest of the runner is busy.
struct Held<'a, D> {
    device: &'a D,
    caches: &'a Caches,
}

impl<D: Ops> CacheReader for Held<'_, D> {
    fn cache(&self) -> &CacheSpec {
        &self.caches.spec
    }

    fn read_pools(&self, block: u32, pools: Range<usize>, out: &mut [u8]) {
        let mut rest = out;
        for (pool, at) in self.caches.pools[pools.clone()].iter().zip(pools) {
            let (part, after) = rest.split_at_mut(self.caches.spec.pool_bytes(at..at + 1));
            self.device.read_block(*pool, block, part);
            rest = after;
        }
    }

    fn read_state(&self, slot: u32, out: &mut [u8]) {
        let mut rest = out;
        for (state, spec) in self.caches.states.iter().zip(&self.caches.spec.states) {
            let (part, after) = rest.split_at_mut(spec.bytes as usize);
            self.device.read_state(*state, slot, part);
            rest = after;
        }
    }
}
