//! The kinds of load under which output is compared.

use crate::api::GenerateRequest;
use crate::draft::{Method, Speculation};
use crate::engine::Config;
use crate::exec::Executor;

/// Tokens of a speculative draft, in modes that draft.
pub const DRAFT_TOKENS: u32 = 4;

/// Where the two roles run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Both on one device.
    OneDevice,
    /// Each on its own device in this process; pages are copied.
    TwoDevices,
    /// As in two processes: joined by a TCP link.
    Linked,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// For people.
    pub name: &'static str,
    /// All requests at once, or one after another.
    pub together: bool,
    /// Where prefill and decode run.
    pub place: Place,
    /// Most prompt tokens of a sequence in a step; 0 is no limit.
    pub chunk: usize,
    /// Prefix cache on, and everything run twice, so that the second pass reads what the first one wrote.
    pub reuse: bool,
    /// Evicted blocks go to host memory and come back.
    pub offload: bool,
    /// So few KV blocks that sequences are preempted.
    pub tight: bool,
    /// Copies of the requests are aborted among them.
    pub aborts: bool,
    /// Drafts of the model's own drafting layer, or without one from every match, however short, so that many are wrong. Only where
    /// the model's caches can be rewound.
    pub drafts: bool,
}

impl Mode {
    /// What everything is compared with: one after another, nothing reused.
    #[must_use]
    pub const fn alone() -> Self {
        Self {
            name: "alone",
            together: false,
            place: Place::OneDevice,
            chunk: 0,
            reuse: false,
            offload: false,
            tight: false,
            aborts: false,
            drafts: false,
        }
    }

    pub(super) fn config(
        &self,
        requests: &[GenerateRequest],
        concurrency: usize,
        longest_blocks: usize,
        device: &dyn Executor,
    ) -> Config {
        let rewinds = device.model().cache.rewinds;
        let ngram = Method::Ngram { prompt_lookup_min: 1, prompt_lookup_max: 3 };
        let longest_output = requests.iter().map(|r| r.max_tokens as usize).max().unwrap_or(1);
        Config {
            max_num_seqs: if self.together { concurrency } else { 1 },
            long_prefill_token_threshold: self.chunk,
            max_queued_requests: requests.len() * 3 + 1,
            // Streams are read one after another here; none may wait for its reader.
            stream_tokens: longest_output + 4,
            enable_prefix_caching: self.reuse,
            kv_offloading_bytes: if self.offload { 1 << 30 } else { 0 },
            speculation: (self.drafts && rewinds >= DRAFT_TOKENS).then_some(Speculation {
                num_speculative_tokens: DRAFT_TOKENS as usize,
                disable_by_batch_size: 0,
                method: if device.drafter().is_some() { Method::Mtp } else { ngram },
            }),
            num_blocks: if self.tight { longest_blocks + longest_blocks.div_ceil(2) + 1 } else { 0 },
            ..Config::default()
        }
    }
}

/// Every mode that is compared with [`Mode::alone`].
#[must_use]
pub fn modes() -> Vec<Mode> {
    let together = Mode { name: "together", together: true, ..Mode::alone() };
    let apart = Mode { name: "prefill and decode apart", place: Place::TwoDevices, ..together };
    let linked = Mode { name: "linked by TCP", place: Place::Linked, ..together };
    vec![
        together,
        Mode { name: "together, prompts in chunks of 7", chunk: 7, ..together },
        Mode { name: "together, prefix cache", reuse: true, ..together },
        Mode { name: "together, prefix cache, chunks of 7", reuse: true, chunk: 7, ..together },
        Mode { name: "together, too little KV memory", tight: true, ..together },
        Mode { name: "together, too little KV memory, host tier", tight: true, reuse: true, offload: true, ..together },
        Mode { name: "together, others aborted", aborts: true, reuse: true, ..together },
        Mode { name: "one after another, drafts", drafts: true, ..Mode::alone() },
        Mode {
            name: "together, drafts, prefix cache, others aborted",
            drafts: true,
            reuse: true,
            aborts: true,
            ..together
        },
        apart,
        Mode { name: "prefill and decode apart, prefix cache, chunks of 7", reuse: true, chunk: 7, ..apart },
        Mode { name: "prefill and decode apart, others aborted", aborts: true, ..apart },
        linked,
        Mode { name: "linked by TCP, prefix cache, chunks of 7", reuse: true, chunk: 7, ..linked },
        Mode { name: "linked by TCP, drafts, too little KV memory", tight: true, drafts: true, ..linked },
        Mode { name: "linked by TCP, others aborted", aborts: true, ..linked },
    ]
}
