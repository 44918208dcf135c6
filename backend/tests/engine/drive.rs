//! Drives many generations from one thread, in an order that a seed decides.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use sluicegate_backend::api::{Event, FinishReason, GenerateRequest, Sampling, Stage, Usage};
use sluicegate_backend::engine::{Config, Engine, Generation, PrefillPeer, PrefillServer, Secret, Stats, Workers};
use sluicegate_backend::verify::Place;

use crate::device::{HashDevice, VOCAB, expected, mix};
use crate::grammar::Thirds;

/// A reproducible source of choices.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = mix(self.0, 1);
        (self.0 >> 16) as usize % sides
    }
}

/// One engine set-up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) blocks: u32,
    pub(crate) seqs: u32,
    pub(crate) rows: u32,
    pub(crate) stateful: bool,
    pub(crate) place: Place,
    pub(crate) delay: Duration,
    pub(crate) config: Config,
}

impl Default for Setup {
    fn default() -> Self {
        let config = Config { stream_tokens: 8, ..Config::default() };
        Self {
            blocks: 256,
            seqs: 16,
            rows: 64,
            stateful: false,
            place: Place::OneDevice,
            delay: Duration::ZERO,
            config,
        }
    }
}

impl Setup {
    pub(crate) fn device(&self) -> Box<HashDevice> {
        let mut device = HashDevice::new(self.blocks, self.seqs, self.rows, self.stateful);
        device.delay = self.delay;
        Box::new(device)
    }

    pub(crate) fn start(&self) -> Running {
        let mut server = None;
        let workers = match self.place {
            Place::OneDevice => Workers::Both(self.device()),
            Place::TwoDevices => Workers::Split { prefill: self.device(), decode: self.device() },
            Place::Linked => {
                let running = server.insert(self.serve("127.0.0.1:0"));
                let prefill = PrefillPeer { address: running.address(), secret: secret() };
                Workers::Remote { prefill, decode: self.device() }
            }
        };
        Running { engine: Engine::start(workers, &self.config).unwrap(), server }
    }

    /// A prefill worker of this set-up.
    pub(crate) fn serve(&self, address: &str) -> PrefillServer {
        PrefillServer::start(self.device(), &self.config, address.parse().unwrap(), secret()).unwrap()
    }
}

pub(crate) fn secret() -> Secret {
    Secret::new("known to both ends").unwrap()
}

/// An engine, with its prefill worker if that is linked.
pub(crate) struct Running {
    pub(crate) engine: Engine,
    pub(crate) server: Option<PrefillServer>,
}

impl From<Engine> for Running {
    fn from(engine: Engine) -> Self {
        Self { engine, server: None }
    }
}

impl std::ops::Deref for Running {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

/// A request with prompt and parameters that a seed decides. Prompts often share prefixes.
pub(crate) fn request(dice: &mut Dice) -> GenerateRequest {
    let family = dice.roll(3) as u32;
    let shared = dice.roll(30);
    let own = 1 + dice.roll(30);
    let mut prompt: Vec<u32> = (0..shared as u32).map(|i| (i * 7 + family) % VOCAB).collect();
    prompt.extend((0..own).map(|_| dice.roll(VOCAB as usize) as u32));
    let sampling = match dice.roll(3) {
        0 => Sampling { temperature: 0.0, ..Sampling::default() },
        1 => Sampling { temperature: 0.9, top_p: 0.9, seed: dice.roll(1000) as u64, ..Sampling::default() },
        _ => Sampling { frequency_penalty: 0.5, repetition_penalty: 1.2, seed: 3, ..Sampling::default() },
    };
    let stop_ids = if dice.roll(2) == 0 { vec![1, 2, 3] } else { vec![] };
    GenerateRequest {
        id: "test".into(),
        prompt,
        sampling,
        stop_ids,
        max_tokens: 1 + dice.roll(40) as u32,
        logprobs: None,
        grammar: None,
        priority: dice.roll(3) as i32,
        deadline: None,
        share: dice.roll(3) as u64,
    }
}

/// Such a request, perhaps with a grammar.
pub(crate) fn any_request(dice: &mut Dice) -> GenerateRequest {
    let request = request(dice);
    let guided = !request.stop_ids.is_empty() && dice.roll(2) == 0;
    GenerateRequest { grammar: guided.then(|| Arc::new(Thirds { slow: dice.roll(3) == 0 }) as _), ..request }
}

/// What a client has received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) tokens: Vec<u32>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) cached: Option<u32>,
    pub(crate) end: Option<(FinishReason, Usage)>,
    pub(crate) failed: Option<String>,
}

impl Received {
    pub(crate) fn take(&mut self, event: Event) {
        assert!(!self.is_over(), "an event after the end: {event:?}");
        match event {
            Event::Stage(stage) => self.stages.push(stage),
            Event::Cached(tokens) => {
                assert!(self.tokens.is_empty(), "the cached count comes before the first token");
                assert_eq!(self.cached.replace(tokens), None, "and once");
            }
            Event::Token { id, .. } => self.tokens.push(id),
            Event::Finished { reason, usage } => {
                assert!(self.tokens.is_empty() || self.cached == Some(usage.cached_tokens));
                self.end = Some((reason, usage));
            }
            Event::Failed(why) => self.failed = Some(why.to_string()),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some() || self.failed.is_some()
    }

    /// Panics unless this is exactly what the request yields alone.
    pub(crate) fn assert_exact(&self, request: &GenerateRequest, stateful: bool) {
        let (tokens, stopped) = expected(request, stateful);
        assert_eq!(self.tokens, tokens, "{request:?}");
        let (reason, usage) = self.end.unwrap_or_else(|| panic!("not finished: {self:?}"));
        assert_eq!(matches!(reason, FinishReason::Stop(_)), stopped);
        assert_eq!(usage.prompt_tokens as usize, request.prompt.len());
        assert_eq!(usage.completion_tokens as usize, tokens.len() + usize::from(stopped));
        assert_eq!(self.stages, [Stage::Prefill, Stage::Transfer, Stage::Decode]);
    }

    /// Panics unless the tokens so far are a front of what the request yields alone.
    pub(crate) fn assert_front(&self, request: &GenerateRequest, stateful: bool) {
        let (tokens, _) = expected(request, stateful);
        assert_eq!(self.tokens, tokens[..self.tokens.len()]);
    }
}

/// Takes what has come, at most `most` events. Says how many.
pub(crate) fn poll(generation: &mut Generation, received: &mut Received, most: usize) -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    for n in 0..most {
        match generation.poll_recv(&mut cx) {
            Poll::Ready(Some(event)) => received.take(event),
            Poll::Ready(None) => panic!("polled after the end"),
            Poll::Pending => return n,
        }
        if received.is_over() {
            return n + 1;
        }
    }
    most
}

/// Runs a generation to its end on this thread.
pub(crate) fn finish(mut generation: Generation) -> Received {
    let mut received = Received::default();
    while let Some(event) = generation.blocking_recv() {
        received.take(event);
    }
    received
}

/// Panics unless the engine comes to hold nothing before long; returns its idle figures.
pub(crate) fn assert_idle(engine: &Running) -> Stats {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let s = engine.stats();
        let busy = s.running + s.waiting + s.prefilling + s.transferring + s.decoding + s.paused;
        let there = engine.server.as_ref().map(PrefillServer::stats).unwrap_or_default();
        let busy = busy + there.running + there.waiting + there.prefilling + there.transferring;
        let held = s.blocks_held + s.slots_used + there.blocks_held + there.slots_used;
        let held = held + s.rooms + s.pages_in_flight + there.rooms + there.pages_in_flight;
        if busy + held == 0 {
            assert_eq!(s.blocks_free + s.blocks_cached, s.blocks_total);
            return Stats { cached_tokens_total: s.cached_tokens_total + there.cached_tokens_total, ..s };
        }
        assert!(Instant::now() < end, "the engine does not come to rest: {s:?} and {there:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
