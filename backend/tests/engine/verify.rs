//! The self-proof finds nothing in a sound device, and finds each kind of unsound one.

use std::ops::Range;

use sluicegate_backend::api::GenerateRequest;
use sluicegate_backend::exec::{CacheReader, CacheSpec, Capacity, ExecError, Executor, ModelSpec, Plan, Sampled};
use sluicegate_backend::verify::{self, ModeReport, Place};

use crate::device::HashDevice;
use crate::drive::{Dice, request};

fn requests() -> Vec<GenerateRequest> {
    let mut dice = Dice(21);
    (0..60).map(|_| GenerateRequest { logprobs: Some(2), ..request(&mut dice) }).collect()
}

fn reports(mut make: impl FnMut() -> Box<dyn Executor>) -> Vec<ModeReport> {
    verify::run(&requests(), 60, &mut || Ok(make()), &mut |_| {}).unwrap()
}

/// What an unsound device gets wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// Results depend on how many sequences run together.
    BatchSize,
    /// A copied page loses a byte.
    LossyCopy,
    /// Rows that begin in the middle of a prompt are computed differently.
    Chunks,
}

struct Flawed(HashDevice, Flaw);

impl Executor for Flawed {
    fn model(&self) -> &ModelSpec {
        self.0.model()
    }

    fn capacity(&self) -> Capacity {
        self.0.capacity()
    }

    fn run(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError> {
        let mut plan = plan.clone();
        let flawed = match self.1 {
            Flaw::BatchSize => plan.sequences.len() > 8,
            Flaw::Chunks => plan.sequences.iter().any(|s| s.start > 0 && s.rows > 1),
            Flaw::LossyCopy => false,
        };
        if flawed {
            plan.tokens[0] ^= 1;
        }
        self.0.run(&plan, out)
    }

    fn reset_slot(&mut self, slot: u32) {
        self.0.reset_slot(slot);
    }

    fn write_pools(&mut self, block: u32, pools: Range<usize>, bytes: &[u8]) {
        self.0.write_pools(block, pools, bytes);
    }

    fn write_state(&mut self, slot: u32, bytes: &[u8]) {
        self.0.write_state(slot, bytes);
    }
}

impl CacheReader for Flawed {
    fn cache(&self) -> &CacheSpec {
        self.0.cache()
    }

    fn read_pools(&self, block: u32, pools: Range<usize>, out: &mut [u8]) {
        self.0.read_pools(block, pools, out);
        if self.1 == Flaw::LossyCopy {
            out[0] = 0;
        }
    }

    fn read_state(&self, slot: u32, out: &mut [u8]) {
        self.0.read_state(slot, out);
    }
}

fn device(stateful: bool) -> HashDevice {
    HashDevice::new(2000, 64, 256, stateful)
}

#[test]
fn a_sound_device_shows_no_difference_in_any_mode() {
    for stateful in [false, true] {
        let reports = reports(|| Box::new(device(stateful)));
        assert!(reports.len() >= 14);
        for r in &reports {
            assert_eq!(r.differences, [], "{r:?}");
            assert!(r.requests >= 60 && r.tokens > 500, "{r:?}");
            assert_eq!(r.cached_tokens > 0, r.mode.reuse && !stateful, "{r:?}");
            assert_eq!(r.preempted > 0, r.mode.tight, "{r:?}");
            assert_eq!(r.loaded_blocks > 0, r.mode.offload && !stateful, "{r:?}");
        }
    }
}

#[test]
fn each_flaw_is_found_where_it_acts() {
    let found = |flaw, acts: fn(&ModeReport) -> bool| {
        for r in reports(|| Box::new(Flawed(device(false), flaw))) {
            assert!(!acts(&r) || !r.differences.is_empty(), "nothing found in mode \"{}\"", r.mode.name);
        }
    };
    found(Flaw::LossyCopy, |r| r.mode.place != Place::OneDevice || r.mode.offload);
    // Too little memory keeps batches small.
    found(Flaw::BatchSize, |r| r.mode.together && !r.mode.tight);
    found(Flaw::Chunks, |r| r.mode.chunk > 0 || r.mode.reuse);
}
