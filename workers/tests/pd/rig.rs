//! Workers and a pool in one process, with devices that can be held and whose right output is known.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluicegate_backend::api::{EngineError, Event, FinishReason, GenerateRequest, Sampling, Stage};
use sluicegate_backend::engine::{Config, Secret, Stats};
use sluicegate_workers::{Door, PoolConfig, Pooled, Role, Standing, Worker, WorkerPool};

use crate::device::{HashDevice, VOCAB, expected, mix};
use crate::gate::{Gate, Gated};

/// A reproducible source of choices.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = mix(self.0, 1);
        (self.0 >> 16) as usize % sides
    }
}

pub(crate) fn secret() -> Secret {
    Secret::new("known to gateway and workers").unwrap()
}

pub(crate) fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// One worker's sizes.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    pub(crate) blocks: u32,
    pub(crate) seqs: u32,
    pub(crate) rows: u32,
    pub(crate) delay: Duration,
    pub(crate) config: Config,
}

impl Default for Size {
    fn default() -> Self {
        let delay = Duration::from_micros(300);
        Self { blocks: 400, seqs: 16, rows: 32, delay, config: Config::default() }
    }
}

/// A worker and the gate before its device.
pub(crate) struct Held {
    pub(crate) worker: Worker,
    pub(crate) gate: Gate,
}

pub(crate) async fn start(role: Role, size: &Size) -> Held {
    start_at(role, size, (any_port(), any_port())).await
}

pub(crate) async fn start_at(role: Role, size: &Size, (listen, transfer_listen): (SocketAddr, SocketAddr)) -> Held {
    let mut device = HashDevice::new(size.blocks, size.seqs, size.rows, true);
    device.delay = size.delay;
    start_on(role, size, Box::new(device), (listen, transfer_listen)).await
}

pub(crate) async fn start_on(
    role: Role,
    size: &Size,
    device: Box<HashDevice>,
    (listen, transfer_listen): (SocketAddr, SocketAddr),
) -> Held {
    let gate = Gate::default();
    let device = Gated { inner: device, gate: gate.clone() };
    let door = Door { role, listen, transfer_listen, secret: secret(), grammars: None };
    let worker = Worker::start(door, Box::new(device), &size.config).await.unwrap();
    Held { worker, gate }
}

/// A pair and a pool that knows it.
pub(crate) struct Rig {
    pub(crate) prefill: Held,
    pub(crate) decode: Held,
    pub(crate) pool: WorkerPool,
}

impl Rig {
    pub(crate) async fn start(prefill: &Size, decode: &Size) -> Self {
        let (prefill, decode) = (start(Role::Prefill, prefill).await, start(Role::Decode, decode).await);
        let pool = pool(&[&prefill, &decode], |_| {}).await;
        Self { prefill, decode, pool }
    }

    pub(crate) async fn assert_idle(&self) {
        assert_idle(&self.pool, &[&self.prefill, &self.decode]).await;
    }
}

/// A pool of these workers, all of them up.
pub(crate) async fn pool(workers: &[&Held], adjust: impl FnOnce(&mut PoolConfig)) -> WorkerPool {
    let mut config = PoolConfig::new(workers.iter().map(|w| w.worker.address()).collect(), secret());
    adjust(&mut config);
    let pool = WorkerPool::start(config).unwrap();
    until(Duration::from_secs(10), "all workers are up", || all_up(&pool)).await;
    pool
}

pub(crate) fn all_up(pool: &WorkerPool) -> bool {
    pool.workers().iter().all(|w| matches!(w.standing, Standing::Up { .. }))
}

/// Waits for a condition; panics if it does not come true in time.
pub(crate) async fn until(limit: Duration, what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < end, "it did not happen within {limit:?} that {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Time to come to rest: milliseconds, but for a machine that has other work.
const AT_REST: Duration = Duration::from_secs(10);

/// What an engine holds; all of it is zero at rest.
pub(crate) fn held(s: &Stats) -> usize {
    let phases = s.running + s.waiting + s.prefilling + s.transferring + s.decoding + s.paused;
    phases + s.blocks_held + s.slots_used + s.rooms + s.pages_in_flight
}

pub(crate) async fn assert_idle(pool: &WorkerPool, workers: &[&Held]) {
    let busy = || workers.iter().map(|w| held(&w.worker.stats())).sum::<usize>() + pool.rooms();
    let end = Instant::now() + AT_REST;
    while busy() > 0 {
        let stats: Vec<Stats> = workers.iter().map(|w| w.worker.stats()).collect();
        assert!(Instant::now() < end, "not at rest: {} rooms, {stats:#?}", pool.rooms());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A request with prompt and parameters that a seed decides.
pub(crate) fn request(dice: &mut Dice) -> GenerateRequest {
    let prompt = (0..1 + dice.roll(60)).map(|_| dice.roll(VOCAB as usize) as u32).collect();
    let sampling = match dice.roll(3) {
        0 => Sampling { temperature: 0.0, ..Sampling::default() },
        1 => Sampling { temperature: 0.9, top_p: 0.9, seed: dice.roll(1000) as u64, ..Sampling::default() },
        _ => Sampling { frequency_penalty: 0.5, repetition_penalty: 1.2, seed: 3, ..Sampling::default() },
    };
    GenerateRequest {
        id: "test".into(),
        prompt,
        sampling,
        stop_ids: if dice.roll(2) == 0 { vec![1, 2, 3] } else { vec![] },
        max_tokens: 1 + dice.roll(40) as u32,
        logprobs: None,
        grammar: None,
        priority: 0,
        deadline: None,
        share: dice.roll(3) as u64,
    }
}

/// A request that runs for a while.
pub(crate) fn long(dice: &mut Dice, prompt: usize) -> GenerateRequest {
    let prompt = (0..prompt).map(|_| dice.roll(VOCAB as usize) as u32).collect();
    GenerateRequest { prompt, max_tokens: 120, stop_ids: vec![], ..request(dice) }
}

/// What a client has received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) tokens: Vec<u32>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) cached: bool,
    pub(crate) end: Option<FinishReason>,
    pub(crate) failed: Option<EngineError>,
}

impl Received {
    pub(crate) fn take(&mut self, event: Event) {
        assert!(self.end.is_none() && self.failed.is_none(), "an event after the end: {event:?}");
        match event {
            Event::Stage(stage) => self.stages.push(stage),
            Event::Cached(_) => {
                assert!(self.tokens.is_empty() && !self.cached, "told once, before the first token");
                self.cached = true;
            }
            Event::Token { id, .. } => self.tokens.push(id),
            Event::Finished { reason, usage } => {
                assert_eq!(usage.completion_tokens as usize, self.tokens.len() + usize::from(stopped(reason)));
                self.end = Some(reason);
            }
            Event::Failed(why) => self.failed = Some(why),
        }
    }

    /// Panics unless this is exactly what the request yields alone.
    pub(crate) fn assert_exact(&self, request: &GenerateRequest) {
        let (tokens, stops) = expected(request, true);
        assert_eq!(self.failed, None);
        assert_eq!(self.tokens, tokens, "{request:?}");
        assert_eq!(self.end.map(stopped), Some(stops), "{self:?}");
        assert_eq!(self.stages, [Stage::Prefill, Stage::Transfer, Stage::Decode]);
    }

    /// Panics unless the tokens so far are a front of what the request yields alone.
    pub(crate) fn assert_front(&self, request: &GenerateRequest) {
        let (tokens, _) = expected(request, true);
        assert_eq!(self.tokens, tokens[..self.tokens.len()]);
    }
}

fn stopped(reason: FinishReason) -> bool {
    matches!(reason, FinishReason::Stop(_))
}

/// Runs a generation to its end.
pub(crate) async fn finish(mut generation: Pooled) -> Received {
    let mut received = Received::default();
    while let Some(event) = generation.recv().await {
        received.take(event);
    }
    received
}

/// One more request is answered, exactly and before long.
pub(crate) async fn probe(pool: &WorkerPool, dice: &mut Dice) {
    let r = GenerateRequest { max_tokens: 8, ..request(dice) };
    let answer = async { finish(pool.submit(r.clone()).await.unwrap()).await };
    tokio::time::timeout(AT_REST, answer).await.expect("answered before long").assert_exact(&r);
}
