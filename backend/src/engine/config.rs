//! Settings of the engine, and the executors it runs on.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;

use crate::draft::Speculation;
use crate::exec::{Capacity, Executor};
use crate::transfer::remote::{Secret, ServeError};

/// How the engine schedules. Names follow vLLM's and SGLang's flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Most sequences that are prefilled or decoded at once; capped by the executor's slots and rows.
    pub max_num_seqs: usize,
    /// Most rows (decode tokens and prefill chunks together) in one step; capped by the executor's rows.
    pub max_num_batched_tokens: usize,
    /// Longest prefill chunk of one sequence in one step; 0: bounded by `max_num_batched_tokens` alone.
    pub long_prefill_token_threshold: usize,
    /// Most requests that wait; one more is refused with [`EngineError::Overloaded`](crate::api::EngineError).
    pub max_queued_requests: usize,
    /// Tokens that a client may lag behind before its sequence is paused.
    pub stream_tokens: usize,
    /// KV blocks to use; 0: all that the executor has. vLLM's `num-gpu-blocks-override`.
    pub num_blocks: usize,
    /// Reuse the KV of blocks whose content was computed before.
    pub enable_prefix_caching: bool,
    /// Host memory for KV blocks that the device evicts, in bytes; 0: none. They come back when a prefix matches.
    pub kv_offloading_bytes: usize,
    /// Only requests of the same share reuse each other's blocks, so that timing tells one tenant nothing about another.
    pub prefix_caching_per_share: bool,
    /// Debug: compare complete KV blocks with their checksums before every step that reads them. The engine stops at the
    /// first one that has changed.
    pub kv_checksums: bool,
    /// Guess tokens and check several in one step; none: one token a step. Output is the same either way.
    pub speculation: Option<Speculation>,
    /// Weights of shares in fair queueing; a share that is not named has weight 1.
    pub share_weights: HashMap<u64, u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_num_seqs: 64,
            max_num_batched_tokens: 512,
            long_prefill_token_threshold: 0,
            max_queued_requests: 1024,
            stream_tokens: 64,
            num_blocks: 0,
            enable_prefix_caching: true,
            kv_offloading_bytes: 0,
            prefix_caching_per_share: false,
            kv_checksums: false,
            speculation: None,
            share_weights: HashMap::new(),
        }
    }
}

/// The devices and their roles.
pub enum Workers {
    /// One device prefills and decodes in the same steps; a prefilled sequence changes hands by its block table.
    Both(Box<dyn Executor>),
    /// One device prefills, the other decodes; a prefilled sequence's pages are copied between them.
    Split {
        /// Runs prompts.
        prefill: Box<dyn Executor>,
        /// Runs everything after the first token.
        decode: Box<dyn Executor>,
    },
    /// A [`PrefillServer`](super::PrefillServer) prefills, in another process; this engine decodes.
    Remote {
        /// Where it is.
        prefill: PrefillPeer,
        /// Runs everything after the first token.
        decode: Box<dyn Executor>,
    },
    /// One device decodes for a gateway, which names a prefill worker with each request.
    Paired {
        /// Runs everything after the first token.
        decode: Box<dyn Executor>,
        /// What every prefill worker knows too.
        secret: Secret,
    },
}

/// A prefill worker in another process.
#[derive(Clone, Debug)]
pub struct PrefillPeer {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it knows too.
    pub secret: Secret,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both(_) => "Both",
            Self::Split { .. } => "Split",
            Self::Remote { .. } => "Remote",
            Self::Paired { .. } => "Paired",
        })
    }
}

/// Why an engine did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A setting that cannot work.
    #[error("engine setting `{name}` is {value}; it must be at least {least}")]
    Setting {
        /// Field of [`Config`].
        name: &'static str,
        /// What it was.
        value: usize,
        /// What it must be.
        least: usize,
    },
    /// The executor has no room for a single sequence.
    #[error("the executor has {blocks} KV blocks, {sequences} sequence slots and {rows} rows; each must be at least 1")]
    NoCapacity {
        /// KV blocks.
        blocks: u32,
        /// Slots.
        sequences: u32,
        /// Rows.
        rows: u32,
    },
    /// Prefill and decode devices that do not hold the same model in the same layout.
    #[error("prefill and decode executors differ in {0}; both must load the same model with the same cache layout")]
    Mismatch(&'static str),
    /// No encryption for links.
    #[error("cannot set up TLS for links between workers: {0}")]
    Tls(String),
    /// Speculation that this model can't do.
    #[error("the model cannot be decoded speculatively: {0}")]
    Speculation(&'static str),
    /// No door for decode workers.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The operating system refused a thread.
    #[error("cannot start an engine thread: {0}")]
    Thread(String),
}

impl Config {
    /// Blocks of an executor that are used.
    pub(super) fn blocks(&self, capacity: Capacity) -> u32 {
        let wanted = u32::try_from(self.num_blocks).unwrap_or(u32::MAX);
        if wanted == 0 { capacity.blocks } else { wanted.min(capacity.blocks) }
    }

    pub(super) fn check(&self) -> Result<(), StartError> {
        let at_least = |name, value, least| {
            if value < least { Err(StartError::Setting { name, value, least }) } else { Ok(()) }
        };
        at_least("max_num_seqs", self.max_num_seqs, 1)?;
        at_least("max_num_batched_tokens", self.max_num_batched_tokens, 1)?;
        at_least("max_queued_requests", self.max_queued_requests, 1)?;
        if let Some(speculation) = &self.speculation {
            at_least("num_speculative_tokens", speculation.num_speculative_tokens, 1)?;
        }
        at_least("stream_tokens", self.stream_tokens, 1)
    }
}
