//! Requests that are running: who asked for what, which stage they are in, what they have used.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::generate::{Stage, Timeline};
use crate::tenant::Consumption;

/// One running request.
#[derive(Debug)]
pub struct Live {
    /// Minted by the gateway.
    pub id: Arc<str>,
    /// Who asked.
    pub tenant: Arc<str>,
    /// Model name as the client wrote it.
    pub model: String,
    /// Whether it is streamed.
    pub stream: bool,
    /// Where its time goes.
    pub timeline: Arc<Timeline>,
    started: SystemTime,
    prompt_tokens: AtomicU64,
    generated_tokens: AtomicU64,
}

impl Live {
    /// A request that begins now.
    #[must_use]
    pub fn new(id: Arc<str>, tenant: Arc<str>, model: String, stream: bool) -> Self {
        Self {
            id,
            tenant,
            model,
            stream,
            timeline: Arc::new(Timeline::new()),
            started: SystemTime::now(),
            prompt_tokens: AtomicU64::new(0),
            generated_tokens: AtomicU64::new(0),
        }
    }

    /// The upstream has this many prompt tokens to read.
    pub fn prompt(&self, tokens: u64) {
        self.prompt_tokens.store(tokens, Ordering::Relaxed);
    }

    /// This many more tokens were generated.
    pub fn generated(&self, tokens: u64) {
        self.generated_tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// The upstream's own count of all generated tokens replaces what was counted on the way.
    pub fn set_generated(&self, tokens: u64) {
        self.generated_tokens.store(tokens, Ordering::Relaxed);
    }

    /// Prompt tokens and generated tokens so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.prompt_tokens.load(Ordering::Relaxed), self.generated_tokens.load(Ordering::Relaxed))
    }

    /// Its state at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (prompt_tokens, generated_tokens) = self.counts();
        let spent = |stage: &Stage| (stage.as_str(), millis(self.timeline.spent(*stage)));
        Snapshot {
            id: self.id.to_string(),
            tenant: self.tenant.to_string(),
            model: self.model.clone(),
            stream: self.stream,
            started: self.started.duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
            age_ms: millis(self.timeline.age()),
            stage: self.timeline.stage().as_str(),
            in_stage_ms: millis(self.timeline.in_stage()),
            first_event_ms: self.timeline.first_event().map(millis),
            spent_ms: Stage::ALL.iter().filter(|s| **s != Stage::Done).map(spent).collect(),
            prompt_tokens,
            generated_tokens,
        }
    }
}

impl Consumption for Live {
    fn tokens(&self) -> u64 {
        let (prompt, generated) = self.counts();
        prompt + generated
    }
}

fn millis(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// What the admin API shows of a running request. Times are milliseconds.
#[derive(Debug, Serialize)]
pub struct Snapshot {
    id: String,
    tenant: String,
    model: String,
    stream: bool,
    started: f64,
    age_ms: f64,
    stage: &'static str,
    in_stage_ms: f64,
    first_event_ms: Option<f64>,
    spent_ms: BTreeMap<&'static str, f64>,
    prompt_tokens: u64,
    generated_tokens: u64,
}

/// All running requests, by id.
#[derive(Debug, Default)]
pub struct Running(Mutex<BTreeMap<Arc<str>, Arc<Live>>>);

impl Running {
    /// Lists a request until the guard is dropped.
    #[must_use]
    pub fn enter(self: &Arc<Self>, live: Arc<Live>) -> Listed {
        self.lock().insert(Arc::clone(&live.id), Arc::clone(&live));
        Listed { running: Arc::clone(self), live }
    }

    /// Every running request, oldest first.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Snapshot> {
        let live: Vec<_> = self.lock().values().cloned().collect();
        let mut all: Vec<_> = live.iter().map(|live| live.snapshot()).collect();
        all.sort_by(|a, b| b.age_ms.total_cmp(&a.age_ms));
        all
    }

    /// How many run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Live>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listed request.
#[derive(Debug)]
pub struct Listed {
    running: Arc<Running>,
    live: Arc<Live>,
}

impl std::ops::Deref for Listed {
    type Target = Arc<Live>;

    fn deref(&self) -> &Arc<Live> {
        &self.live
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.running.lock().remove(&self.live.id);
    }
}
