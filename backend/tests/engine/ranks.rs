//! Guarantee 7: one scheduler decides. Two devices that are told the same things stay the same, whatever clients do.

use std::ops::Range;
use std::time::Duration;

use sluicegate_backend::api::GenerateRequest;
use sluicegate_backend::engine::{Config, Engine, Workers};
use sluicegate_backend::exec::{CacheReader, CacheSpec, Capacity, ExecError, Executor, ModelSpec, Plan, Sampled};

use crate::device::HashDevice;
use crate::drive::{Dice, Received, Running, Setup, assert_idle, finish, poll, request};

/// Two ranks behind one executor. Everything that reaches a device comes through here, so what is equal after each call
/// is equal for ever; nothing is voted on, and no rank has a queue of its own that could differ.
struct Ranks(Box<HashDevice>, Box<HashDevice>);

impl Executor for Ranks {
    fn model(&self) -> &ModelSpec {
        self.0.model()
    }

    fn capacity(&self) -> Capacity {
        self.0.capacity()
    }

    fn run(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError> {
        let mut other = Vec::new();
        self.1.run(&plan.clone(), &mut other)?;
        let from = out.len();
        self.0.run(plan, out)?;
        assert_eq!(out[from..], other, "ranks differ");
        Ok(())
    }

    fn reset_slot(&mut self, slot: u32) {
        self.0.reset_slot(slot);
        self.1.reset_slot(slot);
    }

    fn write_pools(&mut self, block: u32, pools: Range<usize>, bytes: &[u8]) {
        self.0.write_pools(block, pools.clone(), bytes);
        self.1.write_pools(block, pools, bytes);
    }

    fn write_state(&mut self, slot: u32, bytes: &[u8]) {
        self.0.write_state(slot, bytes);
        self.1.write_state(slot, bytes);
    }
}

impl CacheReader for Ranks {
    fn cache(&self) -> &CacheSpec {
        self.0.cache()
    }

    fn read_pools(&self, block: u32, pools: Range<usize>, out: &mut [u8]) {
        let mut other = out.to_vec();
        self.1.read_pools(block, pools.clone(), &mut other);
        self.0.read_pools(block, pools, out);
        assert_eq!(*out, *other, "ranks differ in block {block}");
    }

    fn read_state(&self, slot: u32, out: &mut [u8]) {
        self.0.read_state(slot, out);
    }
}

/// Reads both streams a few events at a time, so that neither can end before the other has begun.
fn read_in_turn(engine: &Engine, requests: [GenerateRequest; 2]) {
    let mut streams = requests.map(|r| (engine.submit(r.clone()).unwrap(), Received::default(), r));
    while streams.iter().any(|(_, received, _)| !received.is_over()) {
        for (stream, received, _) in streams.iter_mut().filter(|(_, received, _)| !received.is_over()) {
            poll(stream, received, 4);
        }
        std::thread::yield_now();
    }
    streams.iter().for_each(|(_, received, request)| received.assert_exact(request, false));
}

#[test]
fn ranks_stay_in_step_through_a_storm_of_aborts() {
    let config = Config { max_queued_requests: 2000, kv_offloading_bytes: 5000, ..Config::default() };
    let setup = Setup { blocks: 60, delay: Duration::from_micros(100), config, ..Setup::default() };
    let workers = Workers::Both(Box::new(Ranks(setup.device(), setup.device())));
    let engine = Running::from(Engine::start(workers, &setup.config).unwrap());
    let mut dice = Dice(71);
    let mut streams = Vec::new();
    for _ in 0..600 {
        streams.push(engine.submit(request(&mut dice)).unwrap());
        if streams.len() > 40 + dice.roll(80) {
            std::thread::sleep(Duration::from_millis(dice.roll(8) as u64));
            streams.truncate(dice.roll(20));
        }
    }
    drop(streams);
    assert_idle(&engine);
    // How often a storm preempts is up to the clock. Two that each need most of the blocks cannot both keep theirs.
    let large =
        |token| GenerateRequest { prompt: vec![token; 8], max_tokens: 160, stop_ids: vec![], ..request(&mut Dice(5)) };
    read_in_turn(&engine, [large(10), large(11)]);
    assert!(assert_idle(&engine).preempted_total > 0);
    let probe = request(&mut dice);
    finish(engine.submit(probe.clone()).unwrap()).assert_exact(&probe, false);
}
