//! How a prefilled sequence gets from the prefill role to the decode role.
//!
//! The roles know two traits. On one device the block table changes hands; between two devices the pages are copied.

mod hand_over;
mod pages;

pub(crate) use hand_over::HandOver;
pub(crate) use pages::{PageReceiver, PageSender, page_link};

use std::fmt::Debug;

use crate::exec::Executor;
use crate::kv::Kv;
use crate::sequence::{Prefilled, Resident, Sequence};

/// The prefill role's end.
pub(crate) trait Outbound: Debug {
    /// Takes the sequence, or gives it back when the far side has no room; its blocks stay pinned by being owned.
    fn offer(&mut self, sequence: Prefilled<Resident>, device: &dyn Executor) -> Option<Box<Prefilled<Resident>>>;
}

/// The decode role's end.
pub(crate) trait Inbound: Debug {
    /// The next sequence, with memory of this worker; none if none has come or there is no memory for it.
    fn take(&mut self, kv: &mut Kv<'_>) -> Option<Prefilled<Resident>>;
    /// Sequences that have come and wait for memory.
    fn waiting(&self) -> usize;
    /// Removes every sequence for which `gone` holds.
    fn sweep(&mut self, gone: &dyn Fn(&Sequence) -> bool) -> Vec<Sequence>;
}
