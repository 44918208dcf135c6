//! A store that many streams share, and the way a stream sits in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use wasmtime::component::ResourceAny;

use super::bindings::parse;
use super::error::Cause;
use super::guest::{Budget, Guest};
use super::host::StorePermit;
use super::tools::ToolSet;

/// Calls after which a slot takes no new streams: guests fragment their memory.
const RETIRE_AFTER: u64 = 1_000_000;

/// Why a call into a slot gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The slot died before, by a neighbour's doing.
    Gone,
    /// This call killed the slot.
    Failed(Cause),
}

/// One store. Its lock is held for the microseconds of one call.
pub(super) struct Slot {
    room: Mutex<Option<Room>>,
    dead: AtomicBool,
    retired: AtomicBool,
}

struct Room {
    guest: Guest,
    toolsets: HashMap<[u8; 32], Shared>,
    calls: u64,
    memory_limit: usize,
    _permit: StorePermit,
}

/// A toolset in the guest and the number of streams that use it.
struct Shared {
    handle: ResourceAny,
    users: usize,
}

impl Slot {
    pub(super) fn new(guest: Guest, permit: StorePermit, memory_limit: usize) -> Self {
        let room = Room { guest, toolsets: HashMap::new(), calls: 0, memory_limit, _permit: permit };
        Self { room: Mutex::new(Some(room)), dead: AtomicBool::new(false), retired: AtomicBool::new(false) }
    }

    /// Whether new streams may sit here.
    pub(super) fn is_open(&self) -> bool {
        !self.dead.load(Relaxed) && !self.retired.load(Relaxed)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    /// Runs one call. If it fails, the store is freed at once and every stream that sits here has lost its seat.
    #[inline]
    fn enter<R>(&self, budget: Budget, call: impl FnOnce(&mut Guest) -> wasmtime::Result<R>) -> Result<R, Lost> {
        let mut lock = self.lock();
        let Some(room) = lock.as_mut() else { return Err(Lost::Gone) };
        room.calls += 1;
        match room.guest.call(budget, call) {
            Ok(answer) => {
                if room.calls > RETIRE_AFTER || room.guest.memory() > room.memory_limit / 2 {
                    self.retired.store(true, Relaxed);
                }
                Ok(answer)
            }
            Err(cause) => {
                self.bury(lock);
                Err(Lost::Failed(cause))
            }
        }
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Option<Room>> {
        // A panic inside a call leaves the store in an unknown state.
        self.room.lock().unwrap_or_else(|poisoned| self.clear(poisoned.into_inner()))
    }

    #[cold]
    fn clear<'a>(&'a self, mut lock: MutexGuard<'a, Option<Room>>) -> MutexGuard<'a, Option<Room>> {
        self.dead.store(true, Relaxed);
        *lock = None;
        self.room.clear_poison();
        lock
    }

    #[cold]
    fn bury(&self, mut lock: MutexGuard<'_, Option<Room>>) {
        self.dead.store(true, Relaxed);
        let room = lock.take();
        drop(lock);
        drop(room);
    }
}

/// A parser in a slot.
pub(super) struct Seat {
    pub(super) slot: Arc<Slot>,
    pub(super) parser: ResourceAny,
    /// How the guest's `brief` face knows the parser, if it has that face.
    pub(super) number: Option<u32>,
    tools: Option<Box<[u8; 32]>>,
}

impl Seat {
    /// Constructs a parser in `slot`, and the toolset if no neighbour has brought it.
    pub(super) fn take(
        slot: Arc<Slot>,
        config: &parse::ParserConfig,
        tools: Option<&ToolSet>,
        budget: Budget,
    ) -> Result<Self, Lost> {
        let key = tools.map(|tools| Box::new(tools.key));
        let handle = match tools {
            Some(tools) => Some(slot.toolset(tools, budget)?),
            None => None,
        };
        let (parser, number) = slot.enter(budget, |guest| {
            let Guest { store, parse, brief, .. } = guest;
            let parser = parse.parser().call_constructor(&mut *store, config, handle)?;
            let number = brief.as_ref().map(|brief| brief.call_number(store, parser)).transpose()?;
            Ok((parser, number))
        })?;
        Ok(Self { slot, parser, number, tools: key })
    }

    #[inline]
    pub(super) fn enter<R>(
        &self,
        budget: Budget,
        call: impl FnOnce(&mut Guest, ResourceAny) -> wasmtime::Result<R>,
    ) -> Result<R, Lost> {
        self.slot.enter(budget, |guest| call(guest, self.parser))
    }

    /// Gives the seat back. `parser` is false when the guest has already consumed it.
    pub(super) fn leave(self, parser: bool, budget: Budget) {
        if parser && !self.slot.is_dead() {
            let _ = self.enter(budget, |guest, parser| parser.resource_drop(&mut guest.store));
        }
        if let Some(key) = self.tools {
            self.slot.release_toolset(&key, budget);
        }
    }
}

impl Slot {
    fn toolset(&self, tools: &ToolSet, budget: Budget) -> Result<ResourceAny, Lost> {
        if let Some(room) = self.lock().as_mut()
            && let Some(shared) = room.toolsets.get_mut(&tools.key)
        {
            shared.users += 1;
            return Ok(shared.handle);
        }
        let handle = self.enter(budget, |guest| {
            let Guest { store, parse, .. } = guest;
            parse.toolset().call_constructor(store, &tools.tools)
        })?;
        let mut lock = self.lock();
        let Some(room) = lock.as_mut() else { return Err(Lost::Gone) };
        let shared = room.toolsets.entry(tools.key).or_insert(Shared { handle, users: 0 });
        shared.users += 1;
        let kept = shared.handle;
        drop(lock);
        if kept != handle {
            // Two streams brought the same tools at once; the first one's copy stays.
            self.enter(budget, |guest| handle.resource_drop(&mut guest.store))?;
        }
        Ok(kept)
    }

    fn release_toolset(&self, key: &[u8; 32], budget: Budget) {
        let mut lock = self.lock();
        let Some(room) = lock.as_mut() else { return };
        let Some(shared) = room.toolsets.get_mut(key) else { return };
        shared.users -= 1;
        if shared.users == 0 {
            let handle = shared.handle;
            room.toolsets.remove(key);
            drop(lock);
            let _ = self.enter(budget, |guest| handle.resource_drop(&mut guest.store));
        }
    }
}
