//! Speculative decoding: a drafter guesses tokens, one step of the model checks them all.
//!
//! A row's output depends on its sequence alone and a draw on seed and position alone, so the tokens that a checked
//! draft yields are the ones that single steps would yield, greedy or sampled. A drafter can cost time, never change
//! output.

mod length;
mod mtp;
mod ngram;

pub(crate) use length::DraftLength;
pub use mtp::Mtp;
pub use ngram::Ngram;

use std::fmt::Debug;
use std::sync::Arc;

use crate::api::Sampling;
use crate::exec::Executor;

/// A sequence that may be drafted for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Prompt and output so far. The last token's KV is not computed yet.
    pub tokens: &'a [u32],
    /// Its state slot, which tells sequences apart while they hold it.
    pub slot: u32,
    /// Most tokens to guess.
    pub most: usize,
    /// Blocks for the tokens and a draft of `most`, to a drafter that [needs them](Drafter::needs_blocks).
    pub blocks: &'a [u32],
    /// How its tokens are drawn.
    pub sampling: &'a Arc<Sampling>,
    /// Tokens at the front that are the prompt.
    pub prompt_len: usize,
}

/// Guesses what comes next.
pub trait Drafter: Debug + Send {
    /// Fills `drafts` with one guess for each of `wanted`, in order; an empty one where it has none. More than `most`
    /// tokens are cut off, tokens outside the vocabulary end a guess.
    fn draft(&mut self, device: &mut dyn Executor, wanted: &[Wanted<'_>], drafts: &mut Vec<Vec<u32>>);
    /// Whether it runs layers whose caches are in the sequences' blocks. Its drafts are as long as they may be.
    fn needs_blocks(&self) -> bool {
        false
    }
}

/// How to speculate; names follow vLLM's `speculative_config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speculation {
    /// Most tokens in one draft.
    pub num_speculative_tokens: usize,
    /// No drafts while more sequences than this are decoded, since rows then cost as much as they may win; 0: no limit.
    pub disable_by_batch_size: usize,
    /// Who drafts.
    pub method: Method,
}

/// A kind of drafter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// What followed the last tokens where they stood before, in prompt or output.
    Ngram {
        /// Fewest tokens that must match.
        prompt_lookup_min: usize,
        /// Most tokens that are compared.
        prompt_lookup_max: usize,
    },
    /// The model's own drafting layers, through [`Executor::drafter`].
    Mtp,
}

impl Speculation {
    /// A drafter of this kind; none if the executor's model has none, or its caches can't be rewound.
    pub(crate) fn drafter(&self, device: &dyn Executor) -> Option<Box<dyn Drafter>> {
        if (device.model().cache.rewinds as usize) < self.num_speculative_tokens {
            return None;
        }
        match self.method {
            Method::Ngram { prompt_lookup_min, prompt_lookup_max } => {
                Some(Box::new(Ngram::new(prompt_lookup_min, prompt_lookup_max)))
            }
            Method::Mtp => device.drafter(),
        }
    }
}
