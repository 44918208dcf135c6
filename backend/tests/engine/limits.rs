//! Refusals: what is asked too much of, and what the client is told.

use std::time::{Duration, Instant};

use sluicegate_backend::api::{EngineError, FinishReason, GenerateRequest, Sampling};
use sluicegate_backend::engine::{Config, Engine, StartError, Workers};

use crate::device::{BLOCK, HashDevice};
use crate::drive::{Dice, Setup, assert_idle, finish, request};

fn greedy(prompt: Vec<u32>, max_tokens: u32) -> GenerateRequest {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    GenerateRequest { prompt, max_tokens, sampling, stop_ids: vec![], ..request(&mut Dice(1)) }
}

#[test]
fn bad_requests_are_refused_with_the_reason() {
    let engine = Setup { blocks: 50, ..Setup::default() }.start();
    let refused = |r: GenerateRequest| engine.submit(r).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused(greedy(vec![], 1)).contains("no tokens"));
    assert!(refused(greedy(vec![96, 97], 1)).contains("token 97 is outside the vocabulary of 97"));
    assert!(refused(greedy(vec![1], 0)).contains("max_tokens is 0"));
    assert!(refused(GenerateRequest { logprobs: Some(21), ..greedy(vec![1], 1) }).contains("top_logprobs"));
    assert_eq!(
        engine.submit(greedy(vec![1; 400], 1)).err(),
        Some(EngineError::PromptTooLong { prompt: 400, context: 400 })
    );
    assert_eq!(engine.submit(greedy(vec![1; 200], 1)).err(), Some(EngineError::TooLarge { needed: 51, total: 50 }));
    type Change = fn(&mut Sampling);
    let changes: [(Change, &str); 7] = [
        (|s| s.temperature = f32::NAN, "temperature"),
        (|s| s.top_p = 0.0, "top_p"),
        (|s| s.min_p = 1.5, "min_p"),
        (|s| s.presence_penalty = f32::INFINITY, "presence_penalty"),
        (|s| s.repetition_penalty = 0.0, "repetition_penalty"),
        (|s| s.logit_bias = vec![(97, 1.0)], "logit_bias"),
        (|s| s.logit_bias = vec![(1, f32::NAN)], "logit_bias"),
    ];
    for (change, name) in changes {
        let mut r = greedy(vec![1], 1);
        change(&mut r.sampling);
        assert!(refused(r).contains(name));
    }
    assert_eq!(assert_idle(&engine).running, 0);
}

#[test]
fn generation_ends_where_memory_or_context_ends() {
    for (blocks, total) in [(50, 50 * BLOCK), (256, 400)] {
        let engine = Setup { blocks, ..Setup::default() }.start();
        let got = finish(engine.submit(greedy(vec![5; 30], 10_000)).unwrap());
        assert_eq!(got.tokens.len() + 30, total);
        assert_eq!(got.end.unwrap().0, FinishReason::Length);
        assert_eq!(engine.limits().max_total_tokens, total);
    }
}

#[test]
fn a_full_queue_refuses_and_says_when_to_come_back() {
    let config = Config { max_queued_requests: 5, max_num_seqs: 1, ..Config::default() };
    let engine = Setup { config, delay: Duration::from_millis(5), ..Setup::default() }.start();
    let all: Vec<_> = (0..20).map(|_| engine.submit(greedy(vec![7; 40], 20))).collect();
    let refused: Vec<_> = all.iter().filter_map(|r| r.as_ref().err()).collect();
    assert!(refused.len() >= 14, "{refused:?}");
    for e in refused {
        assert!(matches!(e, EngineError::Overloaded { retry_after_s: 1..=120 }), "{e:?}");
    }
    let accepted: Vec<_> = all.into_iter().flatten().collect();
    accepted.into_iter().for_each(|g| assert_eq!(finish(g).tokens.len(), 20));
    assert_idle(&engine);
}

#[test]
fn deadlines_end_requests_in_every_phase() {
    let config = Config { max_num_seqs: 1, ..Config::default() };
    let engine = Setup { config, delay: Duration::from_millis(3), ..Setup::default() }.start();
    let in_ms = |ms| Some(Instant::now() + Duration::from_millis(ms));
    let runs = engine.submit(GenerateRequest { deadline: in_ms(60), ..greedy(vec![1; 10], 300) }).unwrap();
    let waits = engine.submit(GenerateRequest { deadline: in_ms(20), ..greedy(vec![1; 10], 300) }).unwrap();
    let waits = finish(waits);
    assert_eq!((waits.end.unwrap().0, waits.tokens.len()), (FinishReason::Deadline, 0));
    let runs = finish(runs);
    assert_eq!(runs.end.unwrap().0, FinishReason::Deadline);
    assert!(!runs.tokens.is_empty() && runs.tokens.len() < 300);
    assert_eq!(assert_idle(&engine).expired_total, 2);
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let start = |workers, config: Config| Engine::start(workers, &config).map(|_| ());
    let device = |stateful| Box::new(HashDevice::new(8, 2, 8, stateful));
    let zero = Config { max_num_seqs: 0, ..Config::default() };
    let wanted = StartError::Setting { name: "max_num_seqs", value: 0, least: 1 };
    assert_eq!(start(Workers::Both(device(false)), zero), Err(wanted));
    let differ = Workers::Split { prefill: device(false), decode: device(true) };
    assert_eq!(start(differ, Config::default()), Err(StartError::Mismatch("cache layout")));
    let empty = Box::new(HashDevice::new(0, 2, 8, false));
    assert!(matches!(start(Workers::Both(empty), Config::default()), Err(StartError::NoCapacity { blocks: 0, .. })));
}
