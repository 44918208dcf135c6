//! A worker: one OS thread that owns a device, its KV memory and one or both roles.
//!
//! Each turn: take what has come in, drop what has gone, plan a step, run it, take the results. Between turns nothing
//! is shared with another thread.

mod meter;
mod start;
mod turn;

pub(super) use start::{Inbox, serve, start};

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use super::{Shared, Stats};
use crate::exec::{Executor, Sampled};
use crate::kv::Memory;
use crate::schedule::{DecodeRole, PlanBuilder, PrefillRole};
use crate::sequence::{Prefilled, Resident, Waiting};
use crate::transfer::{Inbound, Outbound};
use meter::Meter;

/// The prefill role with its doors.
struct Prefill {
    role: PrefillRole,
    /// New requests of this process.
    inbox: Option<Receiver<Waiting>>,
    /// Sequences that the decode worker preempted.
    returned: Option<Receiver<Waiting>>,
    out: Box<dyn Outbound>,
    /// Complete sequences that the far side has no room for yet.
    blocked: VecDeque<Prefilled<Resident>>,
}

/// The decode role with its doors.
struct Decode {
    role: DecodeRole,
    /// New requests, when the queue is at the other end of a link.
    inbox: Option<Receiver<Waiting>>,
    arrivals: Box<dyn Inbound>,
    /// Where preempted sequences go when the queue is in another worker of this process.
    back: Option<SyncSender<Waiting>>,
    /// Preempted sequences that wait for room there.
    returning: VecDeque<Waiting>,
}

struct Worker {
    index: usize,
    device: Box<dyn Executor>,
    memory: Memory,
    prefill: Option<Prefill>,
    decode: Option<Decode>,
    rows: usize,
    builder: PlanBuilder,
    drawn: Vec<Sampled>,
    /// Counters; gauges are filled in when published.
    stats: Stats,
    meter: Meter,
    /// How long the last step ran.
    step_took: Duration,
    shared: Arc<Shared>,
}
