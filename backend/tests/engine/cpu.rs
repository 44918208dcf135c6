//! The same laws on the real CPU executor, with small models of random weights.

use std::path::Path;
use std::time::Duration;

use sluicegate_backend::api::GenerateRequest;
use sluicegate_backend::engine::{Config, Engine, Workers};
use sluicegate_backend::exec::Executor;
use sluicegate_backend::run::{CpuRunOptions, open_cpu};
use sluicegate_backend::verify;

use crate::drive::{Dice, Running, assert_idle, request};

fn open(model: &str) -> Result<Box<dyn Executor>, String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models").join(model);
    let options = CpuRunOptions { blocks: 512, rows: 128, threads: 2, ..CpuRunOptions::default() };
    Ok(Box::new(open_cpu(&dir, &options).map_err(|e| e.to_string())?))
}

fn requests(count: usize) -> Vec<GenerateRequest> {
    let mut dice = Dice(33);
    (0..count).map(|_| GenerateRequest { logprobs: Some(2), ..request(&mut dice) }).collect()
}

#[test]
fn sixty_together_give_what_each_gives_alone() {
    for model in ["llama", "llama_nvfp4_modelopt"] {
        let reports = verify::run(&requests(60), 60, &mut || open(model), &mut |_| {}).unwrap();
        for r in reports {
            assert_eq!(r.differences, [], "{model}: {r:?}");
            assert!(r.tokens > 500);
        }
    }
}

#[test]
fn a_storm_of_aborts_leaves_nothing() {
    let config = Config { max_queued_requests: 2000, ..Config::default() };
    let engine = Running::from(Engine::start(Workers::Both(open("llama").unwrap()), &config).unwrap());
    let mut dice = Dice(12);
    let mut streams = Vec::new();
    for r in requests(1000) {
        streams.push(engine.submit(r).unwrap());
        if streams.len() > 60 + dice.roll(100) {
            std::thread::sleep(Duration::from_millis(dice.roll(10) as u64));
            streams.truncate(dice.roll(30));
        }
    }
    drop(streams);
    let stats = assert_idle(&engine);
    assert_eq!(stats.aborted_total + stats.finished_total, 1000);
    assert!(engine.submit(requests(1).remove(0)).unwrap().blocking_recv().is_some());
}

/// The issue's own figure on the demo model: greedy and sampled, together and alone.
#[test]
#[ignore = "needs the demo model (`cargo xtask demo-model`) and minutes"]
fn sixty_of_smollm2_together_give_what_each_gives_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    let dir = std::env::var_os("SLUICEGATE_MODELS").map_or(root, Into::into).join("SmolLM2-135M-Instruct");
    let mut open = || {
        let executor = open_cpu(&dir, &CpuRunOptions::default()).map_err(|e| e.to_string())?;
        Ok(Box::new(executor) as Box<dyn Executor>)
    };
    let reports = verify::run(&requests(60), 60, &mut open, &mut |r| println!("{r:?}")).unwrap();
    reports.iter().for_each(|r| assert_eq!(r.differences, []));
}
