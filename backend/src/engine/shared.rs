//! What the engine's handle, its workers and its streams share: wake-ups, life cycle, queue permits, published figures.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::stats::Stats;
use crate::api::EngineError;
use crate::grammar::MaskPool;

/// Longest wait that a refused client is told, in seconds.
const MAX_RETRY_S: u64 = 120;

/// The engine's life cycle; it only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Accepts and runs.
    Running = 0,
    /// Accepts nothing, finishes what it has.
    Draining = 1,
    /// Fails what it has and ends.
    Stopping = 2,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Shared {
    threads: OnceLock<Vec<Thread>>,
    phase: AtomicU8,
    lost: OnceLock<String>,
    queue: Arc<Semaphore>,
    queued_tokens: AtomicU64,
    running: AtomicUsize,
    stats: Vec<Mutex<Stats>>,
    masks: MaskPool,
    began: Instant,
    /// When each worker's present turn began, in milliseconds after `began`, and one more; 0 between turns.
    turns: Vec<AtomicU64>,
}

impl Shared {
    pub(super) fn new(workers: usize, max_queued: usize) -> Arc<Self> {
        Arc::new(Self {
            threads: OnceLock::new(),
            phase: AtomicU8::new(Phase::Running as u8),
            lost: OnceLock::new(),
            queue: Arc::new(Semaphore::new(max_queued.min(Semaphore::MAX_PERMITS))),
            queued_tokens: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            stats: (0..workers).map(|_| Mutex::default()).collect(),
            masks: MaskPool::default(),
            began: Instant::now(),
            turns: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    pub(super) fn set_threads(&self, threads: Vec<Thread>) {
        // Set once, by `Engine::start`.
        let _ = self.threads.set(threads);
    }

    /// Makes every worker look at the world again, now or before it next sleeps.
    pub(crate) fn wake(&self) {
        self.threads.get().into_iter().flatten().for_each(Thread::unpark);
    }

    /// Where grammar masks are computed.
    pub(crate) fn masks(&self) -> &MaskPool {
        &self.masks
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Stopping,
        }
    }

    /// Moves the life cycle forward; a move back is ignored.
    pub(crate) fn advance(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.wake();
    }

    /// Lets what runs finish for at most `grace`, then stops. Says whether all of it finished.
    pub(super) fn drain(&self, grace: Duration) -> bool {
        self.advance(Phase::Draining);
        let end = Instant::now() + grace;
        while self.running() > 0 && self.lost().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        let drained = self.running() == 0;
        self.advance(Phase::Stopping);
        drained
    }

    /// Records the first failure of a worker; the engine serves nothing afterwards.
    pub(crate) fn lose(&self, why: String) {
        let _ = self.lost.set(why);
        self.advance(Phase::Stopping);
    }

    /// The failure of a worker, if any.
    pub(crate) fn lost(&self) -> Option<EngineError> {
        self.lost.get().map(|why| EngineError::Worker(why.clone()))
    }

    /// Why a sequence ended without an answer.
    pub(crate) fn why_lost(&self) -> EngineError {
        self.lost().unwrap_or(EngineError::ShuttingDown)
    }

    /// A place in the queue, or a refusal with an estimate of when to come back.
    pub(super) fn enqueue(self: &Arc<Self>, tokens: usize) -> Result<QueuePlace, EngineError> {
        let permit = Arc::clone(&self.queue)
            .try_acquire_owned()
            .map_err(|_| EngineError::Overloaded { retry_after_s: self.retry_after_s() })?;
        self.queued_tokens.fetch_add(tokens as u64, Ordering::Relaxed);
        Ok(QueuePlace { tokens: tokens as u64, shared: Arc::clone(self), _permit: permit })
    }

    /// Time to work off the prompts that wait, at the present rate.
    fn retry_after_s(&self) -> u32 {
        let rate = f64::from(self.stats().tokens_per_second).max(1.0);
        let seconds = (self.queued_tokens.load(Ordering::Relaxed) as f64 / rate).ceil();
        (seconds as u64).clamp(1, MAX_RETRY_S) as u32
    }

    pub(crate) fn live(self: &Arc<Self>) -> Live {
        self.running.fetch_add(1, Ordering::AcqRel);
        Live(Arc::clone(self))
    }

    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    pub(crate) fn publish(&self, worker: usize, stats: Stats) {
        *self.stats[worker].lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }

    pub(super) fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        self.stats.iter().for_each(|s| sum.add(&s.lock().unwrap_or_else(PoisonError::into_inner)));
        sum.running = self.running();
        let now = self.clock();
        let since = |turn: &AtomicU64| match turn.load(Ordering::Relaxed) {
            0 => 0,
            began => now.saturating_sub(began),
        };
        sum.turn_ms = self.turns.iter().map(since).max().unwrap_or(0);
        sum
    }

    fn clock(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// A worker begins a turn. One that never ends shows in [`Stats::turn_ms`], whatever it is that holds it.
    pub(crate) fn turn_begins(&self, worker: usize) {
        self.turns[worker].store(self.clock(), Ordering::Relaxed);
    }

    /// A worker has ended its turn.
    pub(crate) fn turn_ends(&self, worker: usize) {
        self.turns[worker].store(0, Ordering::Relaxed);
    }
}

/// A request's place in the bounded queue, given back when it leaves the queue by any exit.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    tokens: u64,
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.shared.queued_tokens.fetch_sub(self.tokens, Ordering::Relaxed);
    }
}

/// Counts a sequence as running until it is dropped, in whatever phase and place that happens.
#[derive(Debug)]
pub(crate) struct Live(Arc<Shared>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}
