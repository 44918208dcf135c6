//! What `Start`, `Finish` and `Closed` carry. Floats travel as bits, so that no digit is lost.

use serde::{Deserialize, Serialize};

use crate::api::{Logprob, Logprobs, Sampling};
use crate::exec::Sampled;
use crate::sequence::Sequence;

/// A sequence to compute: everything that its first token depends on, and its place in the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) tokens: Vec<u32>,
    pub(super) prompt_len: usize,
    pub(super) logprobs: Option<u8>,
    /// The tokens that the request's grammar admits first; none: any.
    pub(super) mask: Option<Vec<u32>>,
    pub(super) priority: i32,
    pub(super) share: u64,
    /// temperature, top_p, min_p, presence, frequency, repetition.
    floats: [u32; 6],
    top_k: u32,
    seed: u64,
    bias: Vec<(u32, u32)>,
}

impl Job {
    pub(super) fn of(seq: &Sequence) -> Self {
        let s = &seq.sampling;
        let floats = [s.temperature, s.top_p, s.min_p, s.presence_penalty, s.frequency_penalty, s.repetition_penalty];
        Self {
            id: seq.id.to_string(),
            tokens: seq.tokens.clone(),
            prompt_len: seq.prompt_len,
            logprobs: seq.logprobs,
            mask: seq.next_mask().map(|mask| mask.to_vec()),
            priority: seq.priority,
            share: seq.share,
            floats: floats.map(f32::to_bits),
            top_k: s.top_k,
            seed: s.seed,
            bias: s.logit_bias.iter().map(|(id, b)| (*id, b.to_bits())).collect(),
        }
    }

    pub(super) fn sampling(&self) -> Sampling {
        let [temperature, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty] =
            self.floats.map(f32::from_bits);
        Sampling {
            temperature,
            top_k: self.top_k,
            top_p,
            min_p,
            presence_penalty,
            frequency_penalty,
            repetition_penalty,
            logit_bias: self.bias.iter().map(|(id, b)| (*id, f32::from_bits(*b))).collect(),
            seed: self.seed,
        }
    }
}

/// The first token, and what the source knows of the sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct First {
    id: u32,
    /// Of the chosen token, then of the likeliest ones.
    logprobs: Option<Vec<(u32, u32)>>,
    /// Prompt tokens whose KV the source had.
    pub(super) cached: u32,
    /// State of the sequence outside its blocks.
    pub(super) state: Vec<u8>,
}

impl First {
    pub(super) fn new(token: &Sampled, cached: u32, state: Vec<u8>) -> Self {
        let pair = |l: &Logprob| (l.id, l.logprob.to_bits());
        let logprobs = token.logprobs.as_ref().map(|l| std::iter::once(&l.chosen).chain(&l.top).map(pair).collect());
        Self { id: token.id, logprobs, cached, state }
    }

    pub(super) fn token(&self) -> Sampled {
        let logprob = |&(id, bits): &(u32, u32)| Logprob { id, logprob: f32::from_bits(bits) };
        let logprobs = self.logprobs.as_deref().and_then(<[_]>::split_first).map(|(chosen, top)| {
            Box::new(Logprobs { chosen: logprob(chosen), top: top.iter().map(logprob).collect() })
        });
        Sampled { id: self.id, logprobs }
    }
}

/// JSON bytes of a payload; these types always serialize.
pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
