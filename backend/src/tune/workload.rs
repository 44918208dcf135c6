//! What is timed: the engine as it serves, with a number of requests at once.

use std::time::{Duration, Instant};

use super::lent::{Lent, Tunable};
use super::{TuneError, Tuning};
use crate::api::{EngineError, Event, GenerateRequest, Sampling};
use crate::engine::{Config, Engine, Generation, Workers};
use crate::exec::Executor;

/// How long an engine may take to end after its last request has ended.
const GRACE: Duration = Duration::from_secs(60);

/// Requests that run at once, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Prompt tokens on average; a request has from half as many to half as many again.
    pub input_len: u32,
    /// Tokens that each request generates.
    pub output_len: u32,
}

impl Workload {
    /// Prompt tokens of request `i`: spread evenly, in an order that looks like none.
    fn prompt_len(&self, i: u32) -> u32 {
        (self.input_len / 2 + i.wrapping_mul(0x9e37_79b9) % (self.input_len + 1)).max(1)
    }

    /// Tokens of KV memory that so many requests take, in blocks of `block_tokens`.
    #[must_use]
    pub fn kv_tokens(&self, concurrency: u32, block_tokens: u32) -> u32 {
        (0..concurrency).map(|i| (self.prompt_len(i) + self.output_len).next_multiple_of(block_tokens.max(1))).sum()
    }

    /// Tokens of the longest request.
    #[must_use]
    pub fn longest(&self) -> u32 {
        self.input_len / 2 + self.input_len + 1 + self.output_len
    }

    fn request(&self, i: u32, vocab: u32) -> GenerateRequest {
        let token = |t: u32| (t.wrapping_mul(7919) ^ i.wrapping_mul(0x9e37_79b9)) % vocab.max(1);
        GenerateRequest {
            id: format!("tune-{i}").into(),
            prompt: (0..self.prompt_len(i)).map(token).collect(),
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            stop_ids: Vec::new(),
            max_tokens: self.output_len,
            logprobs: None,
            grammar: None,
            priority: 0,
            deadline: None,
            share: 0,
        }
    }
}

/// A device, and the requests that it runs.
pub(super) struct Bench {
    device: Option<Box<dyn Tunable>>,
    workload: Workload,
    max_num_batched_tokens: u32,
}

/// One run of all requests.
pub(super) struct Leg {
    pub(super) seconds: f64,
    /// What each request generated.
    pub(super) tokens: Vec<Vec<u32>>,
}

impl Bench {
    pub(super) fn new(device: Box<dyn Tunable>, workload: Workload) -> Self {
        let max_num_batched_tokens = device.capacity().rows;
        Self { device: Some(device), workload, max_num_batched_tokens }
    }

    /// From the first request's submission to the last one's end. Prompts are computed while others' tokens are generated, as many at a
    /// time as the scheduler lets in.
    pub(super) fn run(&mut self, tuning: &Tuning, concurrency: u32) -> Result<Leg, TuneError> {
        let mut device = self.device.take().ok_or(TuneError::Request(EngineError::ShuttingDown))?;
        device.tune(tuning.knobs);
        let (lent, back) = Lent::new(device);
        let vocab = lent.model().vocab_size;
        let requests: Vec<_> = (0..concurrency).map(|i| self.workload.request(i, vocab)).collect();
        let outcome = self.time(lent, tuning, requests);
        // The engine has ended, and its thread gives the device back; one that panicked does so as it unwinds.
        self.device = back.recv().ok();
        outcome
    }

    fn time(&self, device: Lent, tuning: &Tuning, requests: Vec<GenerateRequest>) -> Result<Leg, TuneError> {
        let config = Config {
            max_num_seqs: requests.len(),
            max_num_batched_tokens: self.max_num_batched_tokens as usize,
            long_prefill_token_threshold: tuning.long_prefill_token_threshold as usize,
            max_queued_requests: requests.len(),
            // Streams are read one after another; none may wait for its reader.
            stream_tokens: self.workload.output_len as usize + 4,
            enable_prefix_caching: false,
            ..Config::default()
        };
        let engine = Engine::start(Workers::Both(Box::new(device)), &config)?;
        let began = Instant::now();
        let streams: Vec<_> = requests.into_iter().map(|r| engine.submit(r)).collect();
        let tokens: Result<Vec<_>, EngineError> = streams.into_iter().map(|s| s.and_then(read)).collect();
        let seconds = began.elapsed().as_secs_f64();
        engine.shutdown(GRACE);
        Ok(Leg { seconds, tokens: tokens.map_err(TuneError::Request)? })
    }
}

fn read(mut generation: Generation) -> Result<Vec<u32>, EngineError> {
    let mut tokens = Vec::new();
    while let Some(event) = generation.blocking_recv() {
        match event {
            Event::Stage(_) | Event::Cached(_) => {}
            Event::Token { id, .. } => tokens.push(id),
            Event::Finished { .. } => return Ok(tokens),
            Event::Failed(error) => return Err(error),
        }
    }
    Err(EngineError::ShuttingDown)
}
