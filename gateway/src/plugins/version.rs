//! One loaded version of a plugin: its code, its stores, and the streams that began on it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use super::bindings::parse;
use super::breaker::Breaker;
use super::descriptor::Plugin;
use super::error::{Cause, PluginError};
use super::guest::{Code, Guest, StartError};
use super::host::{Host, StorePermit};
use super::slot::{Lost, Seat, Slot};
use super::tools::ToolSet;

/// Idle instances kept for calls outside streams (grammar, render).
const MAX_IDLE: usize = 4;

pub(super) struct Version {
    pub(super) host: Arc<Host>,
    /// Name in the registry.
    pub(super) name: String,
    /// Counts the versions of the process.
    pub(super) serial: u64,
    pub(super) sha256: String,
    pub(super) wasm: Arc<[u8]>,
    pub(super) plugin: Plugin,
    pub(super) code: Code,
    pub(super) loaded: SystemTime,
    pub(super) retired: AtomicBool,
    pub(super) quarantined: AtomicBool,
    pub(super) live: AtomicUsize,
    pub(super) opened: AtomicU64,
    pub(super) failures: AtomicU64,
    tables: Mutex<Vec<Table>>,
    idle: Mutex<Vec<(Guest, StorePermit)>>,
    breaker: Mutex<Breaker>,
}

/// A slot and the number of streams that sit at it.
struct Table {
    slot: Arc<Slot>,
    seats: usize,
}

/// What is known before a version exists.
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) serial: u64,
    pub(super) sha256: String,
    pub(super) wasm: Arc<[u8]>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Version {
    pub(super) fn new(host: Arc<Host>, identity: Identity, plugin: Plugin, code: Code) -> Self {
        let breaker = Mutex::new(Breaker::new(&host.settings));
        host.counters.versions_loaded.fetch_add(1, Relaxed);
        Self {
            host,
            name: identity.name,
            serial: identity.serial,
            sha256: identity.sha256,
            wasm: identity.wasm,
            plugin,
            code,
            loaded: SystemTime::now(),
            retired: AtomicBool::new(false),
            quarantined: AtomicBool::new(false),
            live: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            tables: Mutex::new(Vec::new()),
            idle: Mutex::new(Vec::new()),
            breaker,
        }
    }

    /// Stores that streams of this version sit in.
    pub(super) fn stores(&self) -> usize {
        lock(&self.tables).iter().filter(|table| !table.slot.is_dead()).count()
    }

    fn start(&self) -> Result<(Guest, StorePermit), SeatError> {
        let permit = self.host.admit_store().map_err(SeatError::Refused)?;
        match Guest::start(&self.code, &self.host.settings) {
            Ok(guest) => Ok((guest, permit)),
            Err(StartError::Failed(cause, _)) => Err(SeatError::Failed(cause)),
            // Checked when the version was loaded; the component has not changed since.
            Err(StartError::Types(..)) => Err(SeatError::Failed(Cause::Value)),
        }
    }

    /// Seats a new parser: in the first slot with room, or in a slot of its own that nobody joins.
    pub(super) fn seat(
        &self,
        config: &parse::ParserConfig,
        tools: Option<&ToolSet>,
        alone: bool,
    ) -> Result<Seat, SeatError> {
        let slot = self.reserve(alone || self.is_isolating())?;
        Seat::take(Arc::clone(&slot), config, tools, self.host.call_budget).map_err(|lost| {
            self.unreserve(&slot);
            match lost {
                Lost::Gone => SeatError::Gone,
                Lost::Failed(cause) => SeatError::Failed(cause),
            }
        })
    }

    fn reserve(&self, alone: bool) -> Result<Arc<Slot>, SeatError> {
        let capacity = self.host.settings.capacity();
        if !alone {
            let mut tables = lock(&self.tables);
            tables.retain(|table| !table.slot.is_dead());
            if let Some(table) = tables.iter_mut().find(|table| table.seats < capacity && table.slot.is_open()) {
                table.seats += 1;
                return Ok(Arc::clone(&table.slot));
            }
        }
        // Outside the lock: starting a guest may take as long as its budget.
        let (guest, permit) = self.start()?;
        let slot = Arc::new(Slot::new(guest, permit, self.host.settings.memory_bytes));
        let seats = if alone { usize::MAX } else { 1 };
        lock(&self.tables).push(Table { slot: Arc::clone(&slot), seats });
        Ok(slot)
    }

    fn unreserve(&self, slot: &Arc<Slot>) {
        let mut tables = lock(&self.tables);
        let Some(at) = tables.iter().position(|table| Arc::ptr_eq(&table.slot, slot)) else { return };
        let table = &mut tables[at];
        table.seats = if table.seats == usize::MAX { 0 } else { table.seats - 1 };
        // One empty store stays warm while the version serves.
        let keep = slot.is_open() && tables.len() == 1 && !self.retired.load(Relaxed);
        if tables[at].seats == 0 && !keep {
            let table = tables.swap_remove(at);
            drop(tables);
            drop(table);
        }
    }

    /// Gives a seat back; `parser` is false when the guest has already consumed it.
    pub(super) fn leave(&self, seat: Seat, parser: bool) {
        let slot = Arc::clone(&seat.slot);
        seat.leave(parser, self.host.call_budget);
        self.unreserve(&slot);
    }

    /// Runs a call that belongs to no stream in an instance of its own, so that it holds up no stream.
    pub(super) fn aside<R>(&self, call: impl FnOnce(&mut Guest) -> wasmtime::Result<R>) -> Result<R, SeatError> {
        let idle = lock(&self.idle).pop();
        let (mut guest, permit) = match idle {
            Some(pair) => pair,
            None => self.start()?,
        };
        let answer = guest.call(self.host.call_budget, call).map_err(SeatError::Failed)?;
        let mut idle = lock(&self.idle);
        let fit = guest.memory() <= self.host.settings.memory_bytes / 2 && !self.retired.load(Relaxed);
        if fit && idle.len() < MAX_IDLE {
            idle.push((guest, permit));
        }
        Ok(answer)
    }

    /// Counts a stream that failed by this version's doing.
    pub(super) fn stream_failed(&self) {
        self.failures.fetch_add(1, Relaxed);
        self.host.counters.streams_failed.fetch_add(1, Relaxed);
        if lock(&self.breaker).failed(Instant::now()) {
            tracing::error!(plugin = self.name, sha256 = self.sha256, "plugin version failed too many streams");
            self.quarantined.store(true, Relaxed);
        }
    }

    /// Whether new streams get a store each, because streams of this version keep failing and there is nothing
    /// better to give them.
    fn is_isolating(&self) -> bool {
        self.quarantined.load(Relaxed) && lock(&self.breaker).is_open(Instant::now())
    }

    /// Called when another version takes over: what no stream needs goes at once.
    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
        let idle = std::mem::take(&mut *lock(&self.idle));
        drop(idle);
        let mut tables = lock(&self.tables);
        let empty: Vec<Table> = {
            let (empty, used) = std::mem::take(&mut *tables).into_iter().partition(|table| table.seats == 0);
            *tables = used;
            empty
        };
        drop(tables);
        drop(empty);
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        self.host.counters.versions_freed.fetch_add(1, Relaxed);
        tracing::info!(plugin = self.name, sha256 = self.sha256, "plugin version freed");
    }
}

/// Why a stream got no seat.
pub(super) enum SeatError {
    /// The slot died in the meantime; another one will do.
    Gone,
    /// The guest failed.
    Failed(Cause),
    /// No store is free.
    Refused(PluginError),
}
