//! A device that can be held: it stops before a step until it is let go.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};

use sluicegate_backend::exec::{
    CacheReader, CacheSpec, Capacity, ExecError, Executor, ModelSpec, Plan, Sampled, Watch,
};

#[derive(Debug)]
struct State {
    /// Steps that may still run; none: any number.
    allowed: Option<usize>,
    held: bool,
}

/// Holds and lets go; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<(Mutex<State>, Condvar)>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new((Mutex::new(State { allowed: None, held: false }), Condvar::new())))
    }
}

impl Gate {
    /// Lets `steps` more steps run.
    pub(crate) fn hold_after(&self, steps: usize) {
        self.0.0.lock().unwrap().allowed = Some(steps);
        self.0.1.notify_all();
    }

    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().allowed = None;
        self.0.1.notify_all();
    }

    /// Whether a step waits.
    pub(crate) fn is_held(&self) -> bool {
        self.0.0.lock().unwrap().held
    }

    fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        while state.allowed == Some(0) {
            state.held = true;
            state = self.0.1.wait(state).unwrap();
        }
        state.held = false;
        state.allowed = state.allowed.map(|n| n - 1);
    }
}

/// A device behind a gate.
pub(crate) struct Gated {
    pub(crate) inner: Box<dyn Executor>,
    pub(crate) gate: Gate,
}

impl Executor for Gated {
    fn model(&self) -> &ModelSpec {
        self.inner.model()
    }

    fn capacity(&self) -> Capacity {
        self.inner.capacity()
    }

    fn run(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError> {
        self.run_watched(plan, out, &mut ())
    }

    fn run_watched(&mut self, plan: &Plan, out: &mut Vec<Sampled>, watch: &mut dyn Watch) -> Result<(), ExecError> {
        self.gate.pass();
        self.inner.run_watched(plan, out, watch)
    }

    fn reset_slot(&mut self, slot: u32) {
        self.inner.reset_slot(slot);
    }

    fn write_pools(&mut self, block: u32, pools: Range<usize>, bytes: &[u8]) {
        self.inner.write_pools(block, pools, bytes);
    }

    fn write_state(&mut self, slot: u32, bytes: &[u8]) {
        self.inner.write_state(slot, bytes);
    }
}

impl CacheReader for Gated {
    fn cache(&self) -> &CacheSpec {
        self.inner.cache()
    }

    fn read_pools(&self, block: u32, pools: Range<usize>, out: &mut [u8]) {
        self.inner.read_pools(block, pools, out);
    }

    fn read_state(&self, slot: u32, out: &mut [u8]) {
        self.inner.read_state(slot, out);
    }
}
