//! Devices that fail, and engines that end: every client is told.

use std::time::Duration;

use sluicegate_backend::api::{EngineError, GenerateRequest};
use sluicegate_backend::engine::{Config, Engine, Workers};

use crate::device::Fault;
use crate::drive::{Dice, Running, Setup, assert_idle, finish, request};

fn long(dice: &mut Dice) -> GenerateRequest {
    GenerateRequest { max_tokens: 40, stop_ids: vec![], ..request(dice) }
}

fn broken(fault: Fault, in_decode: bool, split: bool) -> Running {
    let setup = Setup::default();
    let mut device = setup.device();
    device.fault = Some(fault);
    let workers = match (split, in_decode) {
        (false, _) => Workers::Both(device),
        (true, false) => Workers::Split { prefill: device, decode: setup.device() },
        (true, true) => Workers::Split { prefill: setup.device(), decode: device },
    };
    Engine::start(workers, &setup.config).unwrap().into()
}

#[test]
fn a_lost_device_fails_every_request_and_refuses_new_ones() {
    for (fault, word) in [(Fault::Device(6), "told to"), (Fault::Panic(6), "panicked")] {
        for (split, in_decode) in [(false, false), (true, false), (true, true)] {
            let engine = broken(fault, in_decode, split);
            let mut dice = Dice(3);
            let streams: Vec<_> = (0..30).map_while(|_| engine.submit(long(&mut dice)).ok()).collect();
            for stream in streams {
                let got = finish(stream);
                assert!(got.is_over());
                if let Some(why) = got.failed {
                    assert!(why.contains(word), "{why}");
                }
            }
            let refused = engine.submit(long(&mut dice)).err();
            assert!(matches!(refused, Some(EngineError::Worker(_))), "{refused:?}");
            assert!(engine.failure().is_some());
        }
    }
}

/// A complete block that changes is found before a step reads it, in memory, on its way to another worker, or evicted.
#[test]
fn a_changed_block_stops_an_engine_that_checks() {
    for split in [false, true] {
        let setup = Setup { config: Config { kv_checksums: true, ..Setup::default().config }, ..Setup::default() };
        let mut device = setup.device();
        device.fault = Some(Fault::Corrupt(2));
        let workers = match split {
            false => Workers::Both(device),
            true => Workers::Split { prefill: device, decode: setup.device() },
        };
        let engine: Running = Engine::start(workers, &setup.config).unwrap().into();
        // Block 0 is the first one's, and complete after the first step.
        let requests: Vec<_> = (0..4).map(|_| GenerateRequest { prompt: vec![9; 20], ..long(&mut Dice(8)) }).collect();
        for r in requests {
            let Ok(stream) = engine.submit(r) else { break };
            finish(stream);
        }
        let why = engine.failure().unwrap().to_string();
        assert!(why.contains("KV block 0 changed after it was complete"), "{why}");
    }
}

#[test]
fn a_refused_plan_fails_its_own_sequences_only() {
    let engine = broken(Fault::BadPlan(2), false, false);
    let mut dice = Dice(4);
    let first = finish(engine.submit(long(&mut dice)).unwrap());
    assert!(first.failed.unwrap().contains("a plan was refused"));
    let next = long(&mut dice);
    finish(engine.submit(next.clone()).unwrap()).assert_exact(&next, false);
    assert_eq!(assert_idle(&engine).failed_total, 1);
}

#[test]
fn shutdown_lets_running_requests_finish() {
    let engine = Setup { delay: Duration::from_micros(300), ..Setup::default() }.start();
    let mut dice = Dice(6);
    let requests: Vec<_> = (0..10).map(|_| long(&mut dice)).collect();
    let streams: Vec<_> = requests.iter().map(|r| engine.submit(r.clone()).unwrap()).collect();
    let readers: Vec<_> = streams.into_iter().map(|s| std::thread::spawn(|| finish(s))).collect();
    assert!(engine.shutdown(Duration::from_secs(10)));
    for (reader, r) in readers.into_iter().zip(&requests) {
        reader.join().unwrap().assert_exact(r, false);
    }
    assert_eq!(engine.submit(long(&mut dice)).err(), Some(EngineError::ShuttingDown));
}

#[test]
fn shutdown_fails_what_the_grace_does_not_cover() {
    let config = Config { stream_tokens: 4, ..Config::default() };
    let engine = Setup { config, ..Setup::default() }.start();
    // Nobody reads, so it cannot finish.
    let stuck = engine.submit(long(&mut Dice(7))).unwrap();
    assert!(!engine.shutdown(Duration::from_millis(30)));
    assert!(finish(stuck).failed.unwrap().contains("shutting down"));
}

#[test]
fn dropping_the_engine_ends_its_streams() {
    let engine = Setup { delay: Duration::from_millis(2), ..Setup::default() }.start();
    let stream = engine.submit(long(&mut Dice(8))).unwrap();
    drop(engine);
    assert!(finish(stream).failed.unwrap().contains("shutting down"));
}
