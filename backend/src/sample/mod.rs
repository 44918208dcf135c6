//! From a row of logits to a token: pure functions, so that the same row and parameters give the same token anywhere.
//!
//! Order: log probabilities of the raw row; then logit bias, penalties, grammar mask; then temperature, top-k, top-p
//! (over what top-k kept), min-p; then one draw. Sums run in a fixed order in f64, and equal logits rank by id.

mod adjust;
mod draw;
mod filter;
mod logprobs;
#[cfg(test)]
mod tests;
mod there;

use crate::exec::{SampleRow, Sampled};
pub(crate) use draw::uniform;
use filter::Candidates;
pub(crate) use there::{Seen, drawn, is_for_device};

/// Buffers that a caller keeps between rows.
#[derive(Debug, Default)]
pub struct Scratch {
    raw: Vec<f32>,
    seen: Vec<u32>,
    candidates: Candidates,
}

/// Draws the next token from `logits`, which are changed. A row in which nothing can be chosen (a mask that admits
/// nothing, logits that are all NaN) gives the first token that the mask admits, else token 0: broken numbers are the
/// model's fault and must not stop the other rows.
pub fn sample(logits: &mut [f32], row: &SampleRow, scratch: &mut Scratch) -> Sampled {
    if row.logprobs.is_some() {
        scratch.raw.clear();
        scratch.raw.extend_from_slice(logits);
    }
    adjust::apply(logits, row, &mut scratch.seen);
    let id = choose(logits, row, &mut scratch.candidates);
    let logprobs = row.logprobs.map(|n| Box::new(logprobs::of(&scratch.raw, id, usize::from(n))));
    Sampled { id, logprobs }
}

fn choose(logits: &[f32], row: &SampleRow, candidates: &mut Candidates) -> u32 {
    let s = &*row.sampling;
    let best = argmax(logits);
    if logits.get(best as usize).is_none_or(|&l| l == f32::NEG_INFINITY) {
        return row.mask.as_deref().and_then(adjust::first_admitted).unwrap_or(0);
    }
    if s.temperature == 0.0 || s.top_k == 1 {
        return best;
    }
    candidates.fill(logits, logits[best as usize], s);
    candidates.pick(uniform(s.seed, row.position)).unwrap_or(best)
}

/// The largest logit's id; of equal ones the smallest. Rows are free of NaN here.
fn argmax(logits: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, &l) in logits.iter().enumerate() {
        if l > best.1 {
            best = (id, l);
        }
    }
    best.0 as u32
}
