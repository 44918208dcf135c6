//! What all plugins of a process share: the engine, its clock, the limits and the counters.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use wasmtime::{Cache, CacheConfig, Config, Engine, Inlining, OptLevel};

use super::error::{Cause, PluginError};
use super::guest::Budget;
use super::settings::Settings;

/// One tick of the clock that bounds guest calls.
pub(super) const TICK: Duration = Duration::from_millis(TICK_MILLIS);
pub(super) const TICK_MILLIS: u64 = 5;

/// Shared by every version of every plugin.
pub(super) struct Host {
    pub(super) engine: Engine,
    pub(super) settings: Settings,
    pub(super) counters: Counters,
    /// Of one push or finish.
    pub(super) push_budget: Budget,
    /// Of any other call.
    pub(super) call_budget: Budget,
    stores: AtomicUsize,
}

impl Host {
    /// Builds the engine and starts its clock.
    pub(super) fn new(settings: Settings) -> wasmtime::Result<Arc<Self>> {
        let mut config = Config::new();
        config
            .wasm_component_model(true)
            .concurrency_support(false)
            .epoch_interruption(true)
            .max_wasm_stack(256 << 10)
            .wasm_backtrace_max_frames(None)
            .wasm_memory64(false)
            .cranelift_opt_level(OptLevel::Speed)
            .compiler_inlining(Inlining::Yes);
        if let Some(dir) = &settings.cache_dir {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let mut cache = CacheConfig::new();
            cache.with_directory(dir.canonicalize()?);
            config.cache(Some(Cache::new(cache)?));
        }
        let engine = Engine::new(&config)?;
        let clock = engine.weak();
        // A thread of its own: a starved async runtime must not stop the clock that bounds its guests.
        thread::Builder::new().name("plugin-clock".to_owned()).spawn(move || {
            while let Some(engine) = clock.upgrade() {
                engine.increment_epoch();
                drop(engine);
                thread::sleep(TICK);
            }
        })?;
        Ok(Arc::new(Self {
            engine,
            push_budget: Budget::of_millis(settings.push_budget_ms),
            call_budget: Budget::of_millis(settings.call_budget_ms),
            settings,
            counters: Counters::default(),
            stores: AtomicUsize::new(0),
        }))
    }

    /// Permission to keep one more store.
    pub(super) fn admit_store(self: &Arc<Self>) -> Result<StorePermit, PluginError> {
        let limit = self.settings.max_stores;
        let taken = self.stores.fetch_update(Relaxed, Relaxed, |count| (count < limit).then_some(count + 1));
        match taken {
            Ok(_) => Ok(StorePermit(Arc::clone(self))),
            Err(_) => Err(PluginError::Exhausted(limit)),
        }
    }

    /// Stores alive now.
    pub(super) fn stores(&self) -> usize {
        self.stores.load(Relaxed)
    }
}

/// Held as long as a store lives.
pub(super) struct StorePermit(Arc<Host>);

impl Drop for StorePermit {
    fn drop(&mut self) {
        self.0.stores.fetch_sub(1, Relaxed);
    }
}

/// Events since the start of the process.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) versions_loaded: AtomicU64,
    pub(super) versions_freed: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) rollbacks: AtomicU64,
    pub(super) streams: AtomicU64,
    pub(super) streams_failed: AtomicU64,
    pub(super) replays: AtomicU64,
    pub(super) contract: AtomicU64,
    pub(super) broken_calls: AtomicU64,
    pub(super) time: AtomicU64,
    pub(super) memory: AtomicU64,
    pub(super) output: AtomicU64,
    pub(super) trap: AtomicU64,
}

impl Counters {
    /// Counts one failed guest call.
    pub(super) fn failure(&self, cause: Cause) {
        let counter = match cause {
            Cause::Time => &self.time,
            Cause::Memory => &self.memory,
            Cause::Output => &self.output,
            Cause::Trap | Cause::Value => &self.trap,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn totals(&self) -> Totals {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        Totals {
            versions_loaded: get(&self.versions_loaded),
            versions_freed: get(&self.versions_freed),
            loads_refused: get(&self.refused),
            rollbacks: get(&self.rollbacks),
            streams: get(&self.streams),
            streams_failed: get(&self.streams_failed),
            replays: get(&self.replays),
            contract_violations: get(&self.contract),
            broken_calls: get(&self.broken_calls),
            failures_time: get(&self.time),
            failures_memory: get(&self.memory),
            failures_output: get(&self.output),
            failures_trap: get(&self.trap),
        }
    }
}

/// Counts since the start of the process, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Versions taken into service.
    pub versions_loaded: u64,
    /// Versions whose code was freed.
    pub versions_freed: u64,
    /// Components that were refused.
    pub loads_refused: u64,
    /// Automatic and requested rollbacks.
    pub rollbacks: u64,
    /// Streams opened.
    pub streams: u64,
    /// Streams that the plugin failed.
    pub streams_failed: u64,
    /// Streams replayed into another store.
    pub replays: u64,
    /// Answers that broke the contract.
    pub contract_violations: u64,
    /// Calls that ended with arguments that are not one JSON object.
    pub broken_calls: u64,
    /// Guest calls that ran out of time.
    pub failures_time: u64,
    /// Guest calls that ran out of memory.
    pub failures_memory: u64,
    /// Guest calls that returned too much.
    pub failures_output: u64,
    /// Guest calls that trapped.
    pub failures_trap: u64,
}
