//! Where a request's time goes: one small record per request, written by its stream, read by the admin API.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a request is doing. `Parse` and `ClientWrite` interrupt `Decode` for the time they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Validation, rendering, tokenizing.
    Render = 0,
    /// Waiting for the upstream to begin.
    Queued = 1,
    /// The upstream reads the prompt.
    Prefill = 2,
    /// Its KV cache moves to a decode worker.
    Transfer = 3,
    /// The upstream generates.
    Decode = 4,
    /// The gateway detokenizes and the plugin parses.
    Parse = 5,
    /// The client (or its socket) has not asked for more.
    ClientWrite = 6,
    /// Over.
    Done = 7,
}

impl Stage {
    /// All stages in order.
    pub const ALL: [Self; 8] = [
        Self::Render,
        Self::Queued,
        Self::Prefill,
        Self::Transfer,
        Self::Decode,
        Self::Parse,
        Self::ClientWrite,
        Self::Done,
    ];

    /// Name in the admin API and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Render => "render",
            Self::Queued => "queued",
            Self::Prefill => "prefill",
            Self::Transfer => "transfer",
            Self::Decode => "decode",
            Self::Parse => "parse",
            Self::ClientWrite => "client_write",
            Self::Done => "done",
        }
    }
}

/// The stages of one request. Times of parallel choices are those of the stream that carries them.
#[derive(Debug)]
pub struct Timeline {
    begin: Instant,
    stage: AtomicU8,
    /// The stage that an interruption returns to.
    below: AtomicU8,
    /// Microseconds after `begin` at which the present stage began.
    since: AtomicU64,
    spent: [AtomicU64; Stage::ALL.len()],
    /// Microseconds to the first event, plus one; 0 while there is none.
    first_event: AtomicU64,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeline {
    /// A request that begins now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            begin: Instant::now(),
            stage: AtomicU8::new(Stage::Render as u8),
            below: AtomicU8::new(Stage::Render as u8),
            since: AtomicU64::new(0),
            spent: Default::default(),
            first_event: AtomicU64::new(0),
        }
    }

    /// The present stage.
    #[must_use]
    pub fn stage(&self) -> Stage {
        Stage::ALL[usize::from(self.stage.load(Ordering::Relaxed)).min(Stage::ALL.len() - 1)]
    }

    /// How long the present stage has lasted.
    #[must_use]
    pub fn in_stage(&self) -> Duration {
        Duration::from_micros(self.now().saturating_sub(self.since.load(Ordering::Relaxed)))
    }

    /// Time spent in a stage so far, the present stay included.
    #[must_use]
    pub fn spent(&self, stage: Stage) -> Duration {
        let past = Duration::from_micros(self.spent[stage as usize].load(Ordering::Relaxed));
        if stage == self.stage() && stage != Stage::Done { past + self.in_stage() } else { past }
    }

    /// Time from the beginning to the first event, once there was one.
    #[must_use]
    pub fn first_event(&self) -> Option<Duration> {
        self.first_event.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_micros)
    }

    /// Age of the request.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Moves to a stage. Only the request's own task calls this.
    pub(crate) fn enter(&self, stage: Stage) {
        let now = self.now();
        let since = self.since.swap(now, Ordering::Relaxed);
        let left = self.stage.swap(stage as u8, Ordering::Relaxed);
        if let Some(spent) = self.spent.get(usize::from(left)) {
            spent.fetch_add(now.saturating_sub(since), Ordering::Relaxed);
        }
    }

    /// Interrupts the present stage by `Parse` or `ClientWrite`; [`Timeline::resume`] returns to it.
    pub(crate) fn suspend(&self, stage: Stage) {
        self.below.store(self.stage.load(Ordering::Relaxed), Ordering::Relaxed);
        self.enter(stage);
    }

    /// Ends an interruption; does nothing when there is none.
    pub(crate) fn resume(&self) {
        if matches!(self.stage(), Stage::Parse | Stage::ClientWrite) {
            let below = Stage::ALL[usize::from(self.below.load(Ordering::Relaxed)).min(Stage::ALL.len() - 1)];
            self.enter(below);
        }
    }

    /// Notes the first event.
    pub(crate) fn event(&self) {
        if self.first_event.load(Ordering::Relaxed) == 0 {
            self.first_event.store(self.now() + 1, Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
