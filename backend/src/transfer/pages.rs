//! Two devices in one process: pages go straight from one to the other where they can reach each other, else through host
//! memory; a bounded number of sequences at a time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Inbound, Outbound, Polled};
use crate::api::{EngineError, Event};
use crate::engine::Shared;
use crate::exec::{CacheSpec, ExecError, Executor, PeerPools};
use crate::kv::{BlockTable, Kv};
use crate::sequence::{Prefilled, Resident, Sequence};

/// Sequences whose pages may be between the devices.
const IN_FLIGHT: usize = 4;

/// A sequence's KV on its way.
#[derive(Debug)]
pub(crate) struct Pages {
    content: Content,
    state: Box<[u8]>,
    /// Tokens that the blocks hold.
    filled: usize,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum Content {
    /// All pools of each block, as `Executor::read_block` gives them.
    Host(Vec<Box<[u8]>>),
    /// Blocks of the other device, which stay as they are until the pin is dropped.
    Device { blocks: Vec<u32>, _pin: Pin },
}

/// Holds a sequence's blocks at the other end.
#[derive(Debug)]
struct Pin {
    number: u64,
    unpin: Sender<u64>,
    shared: Arc<Shared>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        // Nobody listens: the other end is gone, and its blocks with it.
        let _ = self.unpin.send(self.number);
        self.shared.wake();
    }
}

/// Sends pages.
#[derive(Debug)]
pub(crate) struct PageSender {
    spec: CacheSpec,
    link: SyncSender<Prefilled<Pages>>,
    room: Arc<Semaphore>,
    shared: Arc<Shared>,
    /// Whether the receiver reads this device.
    is_reached: bool,
    pinned: HashMap<u64, Resident>,
    next: u64,
    unpin: (Sender<u64>, Receiver<u64>),
}

/// Receives pages.
#[derive(Debug)]
pub(crate) struct PageReceiver {
    link: Receiver<Prefilled<Pages>>,
    pending: VecDeque<Prefilled<Pages>>,
    shared: Arc<Shared>,
    peer: Option<PeerPools>,
}

/// How `to` reads the blocks of `from`, if it can; why not is logged.
pub(crate) fn reach(from: &mut dyn Executor, to: &mut dyn Executor) -> Option<PeerPools> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).ok()?;
    match from.export(nonce).and_then(|export| to.reach(&export)) {
        Ok(peer) => {
            tracing::info!("pages go straight from device to device");
            Some(peer)
        }
        Err(why) => {
            tracing::info!(%why, "pages go through host memory");
            None
        }
    }
}

/// The two ends of a link between devices with this cache layout; `peer` reads the sender's device. The sender is made on its
/// worker's thread, which the blocks that it holds do not leave.
pub(crate) fn page_link(
    spec: CacheSpec,
    peer: Option<PeerPools>,
    shared: &Arc<Shared>,
) -> (impl FnOnce() -> PageSender + Send + use<>, PageReceiver) {
    let (link, receive) = sync_channel(IN_FLIGHT);
    let (is_reached, own) = (peer.is_some(), Arc::clone(shared));
    let sender = move || PageSender {
        spec,
        link,
        room: Arc::new(Semaphore::new(IN_FLIGHT)),
        shared: own,
        is_reached,
        pinned: HashMap::new(),
        next: 0,
        unpin: channel(),
    };
    (sender, PageReceiver { link: receive, pending: VecDeque::new(), shared: Arc::clone(shared), peer })
}

impl PageSender {
    fn copy_out(&self, kv: &Resident, device: &dyn Executor) -> Content {
        let readable = kv.table.readable();
        let block = |id| {
            let mut bytes = vec![0; self.spec.block_bytes()].into_boxed_slice();
            device.read_block(id, &mut bytes);
            bytes
        };
        Content::Host(readable.ids(readable.tokens()).map(block).collect())
    }

    /// Leaves the content where it is, and keeps it so.
    fn pin(&mut self, kv: Resident) -> Content {
        let readable = kv.table.readable();
        let blocks = readable.ids(readable.tokens()).collect();
        self.next += 1;
        let (number, unpin) = (self.next, self.unpin.0.clone());
        self.pinned.insert(number, kv);
        Content::Device { blocks, _pin: Pin { number, unpin, shared: Arc::clone(&self.shared) } }
    }

    /// Frees what the other end has copied, or given up.
    fn free(&mut self) -> bool {
        let before = self.pinned.len();
        for number in self.unpin.1.try_iter() {
            self.pinned.remove(&number);
        }
        self.pinned.len() < before
    }
}

impl Outbound for PageSender {
    fn offer(&mut self, sequence: Prefilled<Resident>, device: &dyn Executor) -> Option<Box<Prefilled<Resident>>> {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else { return Some(Box::new(sequence)) };
        // The permit bounds the sequences on their way, so the channel is never full. A receiver that is gone has failed
        // the engine, and the stream says so.
        let Prefilled { seq, arrival, first, kv } = sequence;
        let filled = kv.table.readable().tokens();
        let mut state = vec![0; self.spec.state_bytes()].into_boxed_slice();
        device.read_state(kv.slot.id(), &mut state);
        let content = if self.is_reached { self.pin(kv) } else { self.copy_out(&kv, device) };
        let pages = Pages { content, state, filled, _permit: permit };
        let _ = self.link.try_send(Prefilled { seq, arrival, first, kv: pages });
        self.shared.wake();
        None
    }

    fn poll(&mut self, _device: &dyn Executor) -> Polled {
        Polled { new: Vec::new(), moved: self.free() }
    }
}

impl PageReceiver {
    fn receive(&mut self) {
        self.pending.extend(self.link.try_iter());
    }

    /// The front sequence's table on this device.
    fn load(&self, kv: &mut Kv<'_>) -> Result<Option<BlockTable>, ExecError> {
        let Some(next) = self.pending.front() else { return Ok(None) };
        let (tokens, filled) = (&next.seq.tokens, next.kv.filled);
        match (&next.kv.content, &self.peer) {
            (Content::Host(blocks), _) => Ok(kv.load(tokens, filled, blocks)),
            (Content::Device { blocks, .. }, Some(peer)) => kv.pull(tokens, filled, peer, blocks),
            (Content::Device { .. }, None) => Err(ExecError::Device("the other device cannot be read".into())),
        }
    }
}

impl Inbound for PageReceiver {
    fn take(&mut self, kv: &mut Kv<'_>) -> Option<Prefilled<Resident>> {
        self.receive();
        if self.pending.is_empty() {
            return None;
        }
        let slot = kv.slot()?;
        let table = match self.load(kv) {
            Ok(table) => table?,
            Err(why) => {
                let lost = self.pending.pop_front()?;
                lost.seq.outlet.send(Event::Failed(EngineError::Worker(format!("its pages were lost: {why}"))));
                return None;
            }
        };
        let Prefilled { seq, arrival, first, kv: pages } = self.pending.pop_front()?;
        kv.write_state(&slot, &pages.state);
        drop(pages);
        self.shared.wake();
        Some(Prefilled { seq, arrival, first, kv: Resident { table, slot } })
    }

    fn waiting(&self) -> usize {
        self.pending.len()
    }

    fn sweep(&mut self, gone: &dyn Fn(&Sequence) -> bool) -> Vec<Sequence> {
        self.receive();
        let (out, keep) = self.pending.drain(..).partition::<Vec<_>, _>(|p| gone(&p.seq));
        self.pending.extend(keep);
        if !out.is_empty() {
            self.shared.wake();
        }
        out.into_iter().map(|p| p.seq).collect()
    }
}
