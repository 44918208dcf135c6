//! What crosses the engine's door: a request in token ids, and its events.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::grammar::Grammar;

/// How the next token is chosen. Neutral values switch a filter off.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 means greedy.
    pub temperature: f32,
    /// Keep the `top_k` likeliest tokens; 0 is off.
    pub top_k: u32,
    /// Keep the smallest set with this probability mass; 1 is off.
    pub top_p: f32,
    /// Keep tokens with at least this fraction of the likeliest one's probability; 0 is off.
    pub min_p: f32,
    /// Subtracted once from every token seen in the output; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted for each time a token was seen in the output; 0 is off.
    pub frequency_penalty: f32,
    /// Divides (or multiplies, if negative) logits of tokens in prompt or output; 1 is off.
    pub repetition_penalty: f32,
    /// Added to these tokens' logits before anything else.
    pub logit_bias: Vec<(u32, f32)>,
    /// Same seed, same prompt, same parameters: same tokens, at any concurrency.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

/// One generation: one prompt, one continuation.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    /// Correlation id for logs; the engine never matches on it.
    pub id: Arc<str>,
    /// Prompt token ids, not empty.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Generation ends when one of these is produced; that token is reported in the finish, not as a token.
    pub stop_ids: Vec<u32>,
    /// Most tokens to generate, at least 1.
    pub max_tokens: u32,
    /// Report the log probability of each token and of this many alternatives.
    pub logprobs: Option<u8>,
    /// What the generated tokens must match; needs a stop id, which it admits where the text may end.
    pub grammar: Option<Arc<dyn Grammar>>,
    /// Larger runs earlier.
    pub priority: i32,
    /// The request fails with [`FinishReason::Deadline`] when this passes.
    pub deadline: Option<Instant>,
    /// Whose share of the engine this uses; weighted fair queueing is per share. Opaque to the engine.
    pub share: u64,
}

/// What a gateway decides for a request when it hands it to a worker: with whom, under which name, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairing {
    /// Names the transfer in the logs of both workers: random, 63 bits, not zero. Minted by the gateway, never a client's.
    pub room: u64,
    /// Where the prefill worker's link is; none for a worker that prefills itself.
    pub prefill: Option<SocketAddr>,
    /// Output that the client has already, from an attempt that was lost: generation goes on behind it.
    pub output: Vec<u32>,
}

/// A token and its log probability under the distribution before filters and temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logprob {
    /// Token id.
    pub id: u32,
    /// Natural logarithm of the probability.
    pub logprob: f32,
}

/// Log probabilities at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// The token that was chosen.
    pub chosen: Logprob,
    /// The likeliest tokens, best first.
    pub top: Vec<Logprob>,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop id was produced.
    Stop(u32),
    /// `max_tokens` or the model's context length was reached.
    Length,
    /// The deadline passed.
    Deadline,
}

/// Token counts of a finished generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Of these, tokens whose KV came from the prefix cache.
    pub cached_tokens: u32,
    /// Generated tokens, the stop token included.
    pub completion_tokens: u32,
}

/// The stage a request has reached; sent once each, for the request's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Left the queue; its first prefill chunk is in a plan.
    Prefill,
    /// Prefill is complete; the sequence is being handed to a decode worker.
    Transfer,
    /// A decode worker owns it.
    Decode,
}

/// What a submitted request yields, in order; exactly one of `Finished` and `Failed` is last.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It reached a stage.
    Stage(Stage),
    /// Prompt tokens whose KV came from the prefix cache; sent once, before the first token, for readers that end the
    /// turn themselves and so never see `Finished`.
    Cached(u32),
    /// The next token.
    Token {
        /// Token id.
        id: u32,
        /// Present when the request asked for log probabilities.
        logprobs: Option<Box<Logprobs>>,
    },
    /// The end.
    Finished {
        /// Why.
        reason: FinishReason,
        /// Token counts.
        usage: Usage,
    },
    /// The engine failed this request.
    Failed(EngineError),
}

/// Why the engine refused or failed a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum EngineError {
    /// The prompt leaves no room for one token.
    #[error("prompt of {prompt} tokens exceeds the model's context of {context}")]
    PromptTooLong {
        /// Prompt tokens.
        prompt: usize,
        /// Context length of the model.
        context: usize,
    },
    /// A parameter is outside its range.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The queue is full; nothing was started.
    #[error("the engine's queue is full; retry in about {retry_after_s} s")]
    Overloaded {
        /// Estimate from the present queue and throughput.
        retry_after_s: u32,
    },
    /// The prompt can never fit the KV memory.
    #[error("request needs {needed} KV blocks, the engine has {total}")]
    TooLarge {
        /// Blocks needed.
        needed: usize,
        /// Blocks in the pool.
        total: usize,
    },
    /// The request's grammar can't be followed any further: it became too complex, or it admits no token.
    #[error("the grammar of the request cannot be followed: {0}")]
    Grammar(String),
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    ShuttingDown,
    /// A worker failed; the request is lost, a retry may help.
    #[error("engine worker failed: {0}")]
    Worker(String),
    /// No worker that could take the request is there; nothing was started, a retry may help.
    #[error("no engine worker can take the request: {0}")]
    Unavailable(String),
}
