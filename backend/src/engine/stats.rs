//! What the engine is doing, for metrics, readiness and tests.

/// A snapshot. Gauges are of now; `_total` counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    }
}
