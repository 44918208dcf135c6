//! How a prefilled sequence gets from the prefill role to the decode role.
//!
//! The roles know two traits. On one device the block table changes hands; between two devices the pages are copied.

mod hand_over;
mod pages;
mod protocol;
pub(crate) mod remote;
mod slices;

pub(crate) use hand_over::HandOver;
pub(crate) use pages::{page_link, reach};

use std::fmt::Debug;

use crate::exec::{CacheReader, Executor};
use crate::kv::Kv;
use crate::sequence::{Prefilled, Prefilling, Resident, Sequence, Waiting};

/// What the prefill role's end brought.
#[derive(Debug, Default)]
pub(crate) struct Polled {
    /// Sequences that others ask this worker to compute.
    pub(crate) new: Vec<Waiting>,
    /// Whether anything moved.
    pub(crate) moved: bool,
}

/// What has moved between workers, at one end. Gauges are of now; `_total` counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Transfers in progress, those being closed included.
    pub(crate) rooms: usize,
    /// Pages that wait to be written to a link.
    pub(crate) pages_in_flight: usize,
    /// Transfers that arrived whole.
    pub(crate) completed_total: u64,
    /// Transfers that this end gave up because the client left or the time was over.
    pub(crate) aborted_total: u64,
    /// Transfers that the other end or the link lost.
    pub(crate) lost_total: u64,
    /// Pages moved.
    pub(crate) pages_total: u64,
    /// Bytes of these pages.
    pub(crate) bytes_total: u64,
}

/// The prefill role's end.
pub(crate) trait Outbound: Debug {
    /// A sequence has more complete blocks than before; they may be sent while the rest is computed.
    fn progress(&mut self, _sequence: &Prefilling) {}

    /// While a step runs that computes the next `rows` tokens of a sequence: so many of its layers are done.
    fn layers_done(&mut self, _sequence: &Prefilling, _rows: usize, _layers: u32) {}

    /// Sends what was announced so, while the step runs, and hears what the other end says to it.
    fn send(&mut self, _device: &dyn CacheReader) {}

    /// Takes the sequence, or gives it back when the far side has no room; its blocks stay pinned by being owned.
    fn offer(&mut self, sequence: Prefilled<Resident>, device: &dyn Executor) -> Option<Box<Prefilled<Resident>>>;

    /// Moves what can be moved, once a turn.
    fn poll(&mut self, _device: &dyn Executor) -> Polled {
        Polled::default()
    }

    /// Sequences that were taken and are not yet received, or whose blocks may still be read.
    fn held(&self) -> usize {
        0
    }

    /// What has moved.
    fn flow(&self) -> Flow {
        Flow::default()
    }
}

/// The decode role's end.
pub(crate) trait Inbound: Debug {
    /// The next sequence, with memory of this worker; none if none has come or there is no memory for it.
    fn take(&mut self, kv: &mut Kv<'_>) -> Option<Prefilled<Resident>>;
    /// Asks the prefill side for a sequence. Only where the queue is at the other end of a link.
    fn submit(&mut self, _waiting: Waiting) {
        debug_assert!(false, "this link does not ask");
    }
    /// Sequences that are on their way or wait for memory.
    fn waiting(&self) -> usize;
    /// Whether one of them waits for memory.
    fn is_starved(&self) -> bool {
        self.waiting() > 0
    }
    /// Removes every sequence for which `gone` holds.
    fn sweep(&mut self, gone: &dyn Fn(&Sequence) -> bool) -> Vec<Sequence>;
    /// What has moved.
    fn flow(&self) -> Flow {
        Flow::default()
    }
}
