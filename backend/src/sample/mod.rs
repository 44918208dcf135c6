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
    /// Enough that the compiler compares in vectors.
    const LANES: usize = 16;
    let (whole, rest) = logits.as_chunks::<LANES>();
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut tops = [f32::NEG_INFINITY; LANES];
    for chunk in whole {
        for (top, &l) in tops.iter_mut().zip(chunk) {
            *top = larger(*top, l);
        }
    }
    let best = tops.iter().chain(rest).copied().fold(f32::NEG_INFINITY, larger);
    let has = |chunk: &[f32; LANES]| chunk.iter().fold(false, |found, &l| found | (l == best));
    let before = whole.iter().position(has).unwrap_or(whole.len()) * LANES;
    let within = logits[before..].iter().position(|&l| l == best);
    within.map_or(0, |i| before + i) as u32
}
