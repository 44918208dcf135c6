//! The engine: takes requests in token ids from async code and runs them on plain worker threads.
//!
//! ```text
//! submit ─► bounded queue ─► prefill role ─► Prefilled ─► decode role ─► bounded stream ─► Generation
//! ```

mod config;
mod pause;
mod prefill_server;
mod shared;
mod stats;
mod stream;
mod validate;
mod worker;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub use crate::transfer::remote::{Identity, Secret, ServeError, layout};
pub use config::{Config, PrefillPeer, StartError, Workers};
pub use prefill_server::PrefillServer;
pub(crate) use shared::{Live, Phase, QueuePlace, Shared};
pub use stats::Stats;
pub use stream::Generation;
pub(crate) use stream::Outlet;

use crate::api::{EngineError, GenerateRequest, Pairing};
use crate::exec::{Executor, ModelSpec};
use crate::grammar::Guide;
use crate::sequence::{Sequence, Waiting};
use worker::Inbox;

/// Sizes that bound every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest prompt and output together: the model's context, or what the KV memory of one worker can hold.
    pub max_total_tokens: usize,
    /// KV blocks of the smallest worker.
    pub blocks: usize,
}

/// A running engine. Clones share it; the last one dropped stops it.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

struct Inner {
    model: ModelSpec,
    limits: Limits,
    stream_tokens: usize,
    /// Most tokens of a draft.
    drafts: usize,
    /// Whether every request names its prefill worker.
    paired: bool,
    inbox: Inbox,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("model", &self.model.architecture).field("shared", &self.shared).finish()
    }
}

impl Engine {
    /// Starts the worker threads.
    ///
    /// # Errors
    /// A setting that cannot work, executors without room or that do not match, or no thread.
    pub fn start(workers: Workers, config: &Config) -> Result<Self, StartError> {
        config.check()?;
        let (model, limits) = inspect(&workers, config)?;
        let paired = matches!(workers, Workers::Paired { .. });
        let started = worker::start(workers, config, limits)?;
        Ok(Self(Arc::new(Inner {
            model,
            limits,
            stream_tokens: config.stream_tokens,
            drafts: config.speculation.as_ref().map_or(0, |s| s.num_speculative_tokens),
            paired,
            inbox: started.inbox,
            shared: started.shared,
            threads: Mutex::new(started.threads),
        })))
    }

    /// Starts a generation; never blocks.
    ///
    /// # Errors
    /// The request is invalid, the queue is full, or the engine is ending.
    pub fn submit(&self, request: GenerateRequest) -> Result<Generation, EngineError> {
        self.submit_paired(request, Pairing::default())
    }

    /// Starts a generation for a gateway, which chose its prefill worker; never blocks.
    ///
    /// # Errors
    /// As [`Self::submit`]; or the pairing does not fit this engine.
    pub fn submit_paired(&self, request: GenerateRequest, pairing: Pairing) -> Result<Generation, EngineError> {
        let inner = &*self.0;
        validate::check(&request, &inner.model, &inner.limits)?;
        validate::check_pairing(&request, &pairing, inner.paired, (&inner.model, &inner.limits))?;
        if inner.shared.phase() != Phase::Running {
            return Err(inner.shared.why_lost());
        }
        let place = inner.shared.enqueue(request.prompt.len() + pairing.output.len())?;
        let (outlet, generation) = stream::stream(inner.stream_tokens, Arc::clone(&inner.shared));
        let guide = |grammar| Guide::start(grammar, &pairing.output, &inner.shared, inner.drafts);
        let guide = request.grammar.clone().map(guide);
        let sequence = Sequence::new(request, outlet, guide, inner.shared.live()).paired(pairing);
        if !inner.inbox.send(Waiting::new(sequence, place)) {
            return Err(inner.shared.why_lost());
        }
        inner.shared.wake();
        Ok(generation)
    }

    /// The model that the engine runs.
    #[must_use]
    pub fn model(&self) -> &ModelSpec {
        &self.0.model
    }

    /// Sizes that bound every request.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// What the engine is doing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.shared.stats()
    }

    /// Why the engine can serve nothing more, if a worker failed.
    #[must_use]
    pub fn failure(&self) -> Option<EngineError> {
        self.0.shared.lost()
    }

    /// Refuses new requests, lets the running ones finish for at most `grace`, fails the rest, and ends the threads.
    /// Blocks the calling thread. Says whether every request finished by itself.
    pub fn shutdown(&self, grace: Duration) -> bool {
        let shared = &self.0.shared;
        let drained = shared.drain(grace);
        join(std::mem::take(&mut *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner)));
        drained
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A panic was recorded by the worker's own guard.
        let _ = thread.join();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.advance(Phase::Stopping);
    }
}

fn inspect(workers: &Workers, config: &Config) -> Result<(ModelSpec, Limits), StartError> {
    let executors: Vec<&dyn Executor> = match workers {
        Workers::Both(both) => vec![&**both],
        Workers::Split { prefill, decode } => vec![&**prefill, &**decode],
        Workers::Remote { decode, .. } | Workers::Paired { decode, .. } => vec![&**decode],
    };
    let model = executors[0].model();
    if let (Some(speculation), Some(decode)) = (&config.speculation, executors.last()) {
        if (model.cache.rewinds as usize) < speculation.num_speculative_tokens {
            return Err(StartError::Speculation(
                "its caches sum up tokens as they go, and a wrong draft of that length can't be taken back",
            ));
        }
        if speculation.drafter(*decode).is_none() {
            return Err(StartError::Speculation("it has no drafting layers; use the method \"ngram\""));
        }
    }
    let mut limits = inspect_one(executors[0], config)?;
    for executor in &executors[1..] {
        if executor.model().cache != model.cache {
            return Err(StartError::Mismatch("cache layout"));
        }
        if executor.model() != model {
            return Err(StartError::Mismatch("model"));
        }
        let other = inspect_one(*executor, config)?;
        limits.blocks = limits.blocks.min(other.blocks);
        limits.max_total_tokens = limits.max_total_tokens.min(other.max_total_tokens);
    }
    Ok((model.clone(), limits))
}

/// What one executor can hold.
fn inspect_one(executor: &dyn Executor, config: &Config) -> Result<Limits, StartError> {
    let (c, model) = (executor.capacity(), executor.model());
    if c.blocks == 0 || c.sequences == 0 || c.rows == 0 {
        return Err(StartError::NoCapacity { blocks: c.blocks, sequences: c.sequences, rows: c.rows });
    }
    let blocks = config.blocks(c) as usize;
    let tokens = blocks.saturating_mul(model.cache.block_tokens as usize);
    Ok(Limits { max_total_tokens: tokens.min(model.context_length as usize), blocks })
}
