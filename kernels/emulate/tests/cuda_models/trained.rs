//! A trained DeepSeek-V4 through the engine: greedy output equals, token by token, what the CPU executor and the oracle write.

use serde::Deserialize;
use sluicegate_backend::api::{Event, GenerateRequest, Sampling};
use sluicegate_backend::engine::{Config, Engine, Workers};
use sluicegate_backend::models::CacheDtypes;
use sluicegate_backend::run::{CudaRunOptions, open_cuda};

use crate::{goldens, kernels, with_driver};

#[derive(Deserialize)]
struct Request {
    name: String,
    prompt_ids: Vec<u32>,
    nvfp4_output_ids: Vec<u32>,
}

fn submit(engine: &Engine, request: &Request) -> sluicegate_backend::engine::Generation {
    let request = GenerateRequest {
        id: request.name.as_str().into(),
        prompt: request.prompt_ids.clone(),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stop_ids: Vec::new(),
        max_tokens: request.nvfp4_output_ids.len() as u32,
        logprobs: None,
        grammar: None,
        priority: 0,
        deadline: None,
        share: 0,
    };
    engine.submit(request).expect("there is room")
}

fn collect(mut stream: sluicegate_backend::engine::Generation) -> Vec<u32> {
    let mut tokens = Vec::new();
    while let Some(event) = stream.blocking_recv() {
        match event {
            Event::Token { id, .. } => tokens.push(id),
            Event::Failed(why) => panic!("{why}"),
            Event::Stage(_) | Event::Cached(_) | Event::Finished { .. } => {}
        }
    }
    tokens
}

/// Requests whose least gap between best and second logit is above 2.6, so that roundings decide nothing.
fn generates(seed: u32, names: &[&str], dtypes: CacheDtypes, simulate: bool) {
    with_driver(seed, || {
        let folder = goldens().join("tiny-dsv4-tools");
        let text = std::fs::read(folder.join("bf16/goldens.json")).expect("goldens");
        let mut requests: Vec<Request> = serde_json::from_slice(&text).expect("goldens");
        requests.retain(|r| names.contains(&r.name.as_str()));
        assert_eq!(requests.len(), names.len());
        let options = CudaRunOptions {
            blocks: 256,
            sequences: 4,
            rows: 192,
            dtypes,
            simulate,
            kernels: kernels(),
            ..CudaRunOptions::default()
        };
        let executor = open_cuda(&folder.join("nvfp4"), &options).expect("the model opens");
        let config = Config { max_num_seqs: 4, max_num_batched_tokens: 192, ..Config::default() };
        let engine = Engine::start(Workers::Both(Box::new(executor)), &config).expect("an engine starts");
        let streams: Vec<_> = requests.iter().map(|r| submit(&engine, r)).collect();
        for (stream, request) in streams.into_iter().zip(&requests) {
            assert_eq!(collect(stream), request.nvfp4_output_ids, "{}", request.name);
        }
    });
}

#[test]
fn an_answer_from_caches_in_8_and_4_bits() {
    generates(4, &["small_talk"], CacheDtypes::FP8, true);
}

#[test]
#[ignore = "a minute of computing; run with --ignored"]
fn answers_and_a_tool_call_together() {
    generates(3, &["answer_port", "small_talk", "weather_two_cities"], CacheDtypes::BF16, false);
    generates(5, &["answer_weather", "answer_port"], CacheDtypes::FP8, true);
}
