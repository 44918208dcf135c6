//! What the engine is doing, for metrics, readiness and tests.

use serde::{Deserialize, Serialize};

use crate::transfer::Flow;

/// A snapshot. Gauges are of now; `_total` counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Requests submitted and not yet ended, in any phase.
    pub running: usize,
    /// Requests that wait, preempted ones included.
    pub waiting: usize,
    /// Sequences being prefilled.
    pub prefilling: usize,
    /// Prefilled sequences that wait for the decode worker.
    pub transferring: usize,
    /// Sequences being decoded.
    pub decoding: usize,
    /// Of these, sequences not scheduled because their client is slow.
    pub paused: usize,
    /// KV blocks of all workers.
    pub blocks_total: usize,
    /// Blocks that hold nothing.
    pub blocks_free: usize,
    /// Blocks that sequences hold.
    pub blocks_held: usize,
    /// Blocks kept only for prefix reuse; evicted when room is needed.
    pub blocks_cached: usize,
    /// Blocks whose content is kept in host memory.
    pub blocks_host: usize,
    /// Per-sequence slots of all workers.
    pub slots_total: usize,
    /// Slots in use.
    pub slots_used: usize,
    /// How long a worker's present turn has taken, in milliseconds, the longest of all workers; 0 between turns. A turn
    /// is one step with what surrounds it, so a large figure is a worker that is stuck.
    pub turn_ms: u64,
    /// Tokens (prefilled and generated) per second over the last seconds of work.
    pub tokens_per_second: f32,
    /// Steps run.
    pub steps_total: u64,
    /// Prompt tokens of admitted requests.
    pub prompt_tokens_total: u64,
    /// Of these, tokens whose KV was reused.
    pub cached_tokens_total: u64,
    /// Blocks brought back from host memory.
    pub blocks_loaded_total: u64,
    /// Tokens generated.
    pub generated_tokens_total: u64,
    /// Drafts that were checked.
    pub spec_decode_drafts_total: u64,
    /// Tokens in them.
    pub spec_decode_draft_tokens_total: u64,
    /// Of these, tokens that were right.
    pub spec_decode_accepted_tokens_total: u64,
    /// Requests that reached their own end.
    pub finished_total: u64,
    /// Requests whose client left.
    pub aborted_total: u64,
    /// Requests whose deadline passed.
    pub expired_total: u64,
    /// Requests the engine failed.
    pub failed_total: u64,
    /// Times a sequence gave its blocks back to be computed again later.
    pub preempted_total: u64,
    /// Transfers over links in progress, those being closed included.
    pub rooms: usize,
    /// Pages that wait to be written to a link.
    pub pages_in_flight: usize,
    /// Transfers over links that arrived whole.
    pub transfers_completed_total: u64,
    /// Transfers that this end gave up because the client left or the time was over.
    pub transfers_aborted_total: u64,
    /// Transfers that the other end or the link lost.
    pub transfers_lost_total: u64,
    /// Pages moved over links.
    pub transfer_pages_total: u64,
    /// Bytes of these pages.
    pub transfer_bytes_total: u64,
}

impl Stats {
    /// Adds another worker's figures.
    pub(crate) fn add(&mut self, other: &Self) {
        self.waiting += other.waiting;
        self.prefilling += other.prefilling;
        self.transferring += other.transferring;
        self.decoding += other.decoding;
        self.paused += other.paused;
        self.blocks_total += other.blocks_total;
        self.blocks_free += other.blocks_free;
        self.blocks_held += other.blocks_held;
        self.blocks_cached += other.blocks_cached;
        self.blocks_host += other.blocks_host;
        self.blocks_loaded_total += other.blocks_loaded_total;
        self.slots_total += other.slots_total;
        self.slots_used += other.slots_used;
        self.tokens_per_second += other.tokens_per_second;
        self.steps_total += other.steps_total;
        self.prompt_tokens_total += other.prompt_tokens_total;
        self.cached_tokens_total += other.cached_tokens_total;
        self.generated_tokens_total += other.generated_tokens_total;
        self.spec_decode_drafts_total += other.spec_decode_drafts_total;
        self.spec_decode_draft_tokens_total += other.spec_decode_draft_tokens_total;
        self.spec_decode_accepted_tokens_total += other.spec_decode_accepted_tokens_total;
        self.finished_total += other.finished_total;
        self.aborted_total += other.aborted_total;
        self.expired_total += other.expired_total;
        self.failed_total += other.failed_total;
        self.preempted_total += other.preempted_total;
        self.rooms += other.rooms;
        self.pages_in_flight += other.pages_in_flight;
        self.transfers_completed_total += other.transfers_completed_total;
        self.transfers_aborted_total += other.transfers_aborted_total;
        self.transfers_lost_total += other.transfers_lost_total;
        self.transfer_pages_total += other.transfer_pages_total;
        self.transfer_bytes_total += other.transfer_bytes_total;
    }

    pub(super) fn add_flow(&mut self, flow: Flow) {
        self.rooms += flow.rooms;
        self.pages_in_flight += flow.pages_in_flight;
        self.transfers_completed_total += flow.completed_total;
        self.transfers_aborted_total += flow.aborted_total;
        self.transfers_lost_total += flow.lost_total;
        self.transfer_pages_total += flow.pages_total;
        self.transfer_bytes_total += flow.bytes_total;
    }
}
