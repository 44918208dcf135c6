//! Where generation happens: the one trait behind which engines, servers and recordings look the same.

mod native;
mod replay;
mod workers;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures_core::Stream;
use futures_core::future::BoxFuture;
use sluicegate_backend::api::{Logprobs, Stage, Usage};
use sluicegate_backend::grammar::Grammar;

pub use native::Native;
pub use replay::{Recordings, RecordingsError, Replay, ReplayStats};
pub use workers::Workers;

use crate::chat;
use crate::error::Error;
use crate::grammar::TokenSpace;

/// What an upstream is asked for: one choice of one request.
#[derive(Clone, Debug)]
pub struct Job {
    /// Unique for each job; minted by the gateway.
    pub id: Arc<str>,
    /// Which of the request's `n` choices this is.
    pub choice: u32,
    /// The request, for upstreams that take messages.
    pub request: Arc<chat::Request>,
    /// The prompt's token ids; empty when the route renders none.
    pub prompt: Arc<[u32]>,
    /// Ids that end the generation.
    pub stop_ids: Vec<u32>,
    /// Most tokens to generate; none: what the context leaves.
    pub max_tokens: Option<u32>,
    /// Sampling; the seed differs between choices.
    pub sampling: sluicegate_backend::api::Sampling,
    /// What the output must match; for upstreams with a [`Upstream::token_space`].
    pub grammar: Option<Arc<dyn Grammar>>,
    /// Larger runs earlier.
    pub priority: i32,
    /// When the request has failed if it is not done.
    pub deadline: Option<Instant>,
    /// Whose share of the engine this uses.
    pub share: u64,
}

/// Why the upstream stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The model ended its turn; the stop id when it is known.
    Eos(Option<u32>),
    /// A stop string that the upstream itself applied.
    StopString(String),
    /// A token limit.
    Length,
    /// The upstream's filter.
    ContentFilter,
    /// The request's deadline passed.
    Deadline,
}

/// What a job yields, in order; `Finished` is last. A stream that ends without it was cut.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// It reached a stage.
    Stage(Stage),
    /// Prompt tokens that came from a prefix cache, when that is known before the end.
    Cached(u32),
    /// The next token of an upstream that speaks token ids.
    Token {
        /// Token id.
        id: u32,
        /// When the request asked for them.
        logprobs: Option<Box<Logprobs>>,
    },
    /// The next text of an upstream that speaks text.
    Text {
        /// The text, special tokens included as far as the upstream keeps them.
        text: String,
        /// The ids it decodes from, when they are known.
        ids: Vec<u32>,
        /// How many tokens it stands for.
        tokens: u32,
    },
    /// The end.
    Finished {
        /// Why.
        cause: Cause,
        /// Counts.
        usage: Usage,
    },
}

/// The pieces of one job. Dropping it before its end aborts the job.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Piece, Error>> + Send>>;

/// A job that was accepted.
pub struct Started {
    /// What it yields.
    pub pieces: Pieces,
    /// How the prompt ended, when the upstream rendered it and knows. It tells a format whether reasoning is open already.
    pub prompt_tail: Option<String>,
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("prompt_tail", &self.prompt_tail).finish_non_exhaustive()
    }
}

/// Something that generates.
pub trait Upstream: Send + Sync + fmt::Debug {
    /// Name in logs, metrics and errors.
    fn name(&self) -> &str;

    /// Whether it takes prompts as token ids, so that its routes need a renderer and a tokenizer.
    fn takes_tokens(&self) -> bool;

    /// What the gateway's grammars must know of its tokens. None: it takes no grammars, and reads what the client promised
    /// itself of its output from the request.
    fn token_space(&self) -> Option<TokenSpace> {
        None
    }

    /// Starts a job. Back-pressure: an upstream holds a bounded number of unread pieces and waits.
    fn submit(&self, job: Job) -> BoxFuture<'_, Result<Started, Error>>;
}
