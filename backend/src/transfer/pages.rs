//! Two devices in one process: pages and state are copied through host memory, a bounded number of sequences at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Inbound, Outbound};
use crate::engine::Shared;
use crate::exec::{CacheSpec, Executor};
use crate::kv::Kv;
use crate::sequence::{Prefilled, Resident, Sequence};

/// Sequences whose pages may be in host memory, between the devices.
const IN_FLIGHT: usize = 4;

/// A sequence's KV outside any device.
#[derive(Debug)]
pub(crate) struct Pages {
    /// All pools of each block, as `Executor::read_block` gives them.
    blocks: Vec<Box<[u8]>>,
    state: Box<[u8]>,
    /// Tokens that the blocks hold.
    filled: usize,
    _permit: OwnedSemaphorePermit,
}

/// Sends pages.
#[derive(Debug)]
pub(crate) struct PageSender {
    spec: CacheSpec,
    link: SyncSender<Prefilled<Pages>>,
    room: Arc<Semaphore>,
    shared: Arc<Shared>,
}

/// Receives pages.
#[derive(Debug)]
pub(crate) struct PageReceiver {
    link: Receiver<Prefilled<Pages>>,
    pending: VecDeque<Prefilled<Pages>>,
    shared: Arc<Shared>,
}

/// The two ends of a link between devices with this cache layout.
pub(crate) fn page_link(spec: CacheSpec, shared: &Arc<Shared>) -> (PageSender, PageReceiver) {
    let (send, receive) = sync_channel(IN_FLIGHT);
    let room = Arc::new(Semaphore::new(IN_FLIGHT));
    let sender = PageSender { spec, link: send, room, shared: Arc::clone(shared) };
    (sender, PageReceiver { link: receive, pending: VecDeque::new(), shared: Arc::clone(shared) })
}

impl PageSender {
    fn copy_out(&self, kv: &Resident, permit: OwnedSemaphorePermit, device: &dyn Executor) -> Pages {
        let readable = kv.table.readable();
        let filled = readable.tokens();
        let block = |id| {
            let mut bytes = vec![0; self.spec.block_bytes()].into_boxed_slice();
            device.read_block(id, &mut bytes);
            bytes
        };
        let mut state = vec![0; self.spec.state_bytes()].into_boxed_slice();
        device.read_state(kv.slot.id(), &mut state);
        Pages { blocks: readable.ids(filled).map(block).collect(), state, filled, _permit: permit }
    }
}

impl Outbound for PageSender {
    fn offer(&mut self, sequence: Prefilled<Resident>, device: &dyn Executor) -> Option<Box<Prefilled<Resident>>> {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else { return Some(Box::new(sequence)) };
        // The source blocks are freed after the copy; the permit bounds the pages, so the channel is never full. A
        // receiver that is gone has failed the engine, and the stream says so.
        let Prefilled { seq, arrival, first, kv } = sequence;
        let _ = self.link.try_send(Prefilled { seq, arrival, first, kv: self.copy_out(&kv, permit, device) });
        self.shared.wake();
        None
    }
}

impl PageReceiver {
    fn receive(&mut self) {
        self.pending.extend(self.link.try_iter());
    }
}

impl Inbound for PageReceiver {
    fn take(&mut self, kv: &mut Kv<'_>) -> Option<Prefilled<Resident>> {
        self.receive();
        let next = self.pending.front()?;
        let slot = kv.slot()?;
        let table = kv.load(&next.seq.tokens, next.kv.filled, &next.kv.blocks)?;
        kv.write_state(&slot, &next.kv.state);
        let Prefilled { seq, arrival, first, kv: pages } = self.pending.pop_front()?;
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
