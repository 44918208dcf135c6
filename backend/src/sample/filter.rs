//! Which tokens may be drawn, and the draw among them.

use std::cmp::Ordering;

use crate::api::Sampling;

/// First guess of how many tokens top-p keeps; grown until enough.
const NUCLEUS: usize = 128;

/// A token with its weight: probability times a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    id: u32,
    logit: f32,
    weight: f64,
}

/// The tokens that may be drawn; the buffer is reused.
#[derive(Debug, Default)]
pub(super) struct Candidates(Vec<Candidate>);

/// Likeliest first; equal ones by id, so that the order is total.
fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

impl Candidates {
    /// Fills in what temperature, top-k, top-p and min-p leave of a row whose largest logit is `max`.
    pub(super) fn fill(&mut self, logits: &[f32], max: f32, s: &Sampling) {
        let weight = |logit: f32| (f64::from(logit - max) / f64::from(s.temperature)).exp();
        self.0.clear();
        let possible = logits.iter().enumerate().filter(|(_, l)| **l > f32::NEG_INFINITY);
        self.0.extend(possible.map(|(id, &logit)| Candidate { id: id as u32, logit, weight: weight(logit) }));
        self.top_k(s.top_k as usize);
        self.top_p(f64::from(s.top_p));
        if s.min_p > 0.0 {
            // The likeliest token weighs exactly 1.
            self.0.retain(|c| c.weight >= f64::from(s.min_p));
        }
    }

    fn top_k(&mut self, k: usize) {
        if k > 0 && k < self.0.len() {
            self.rank_first(k);
            self.0.truncate(k);
        }
    }

    fn top_p(&mut self, p: f64) {
        if p >= 1.0 {
            return;
        }
        let wanted = p * self.total();
        let mut ranked = NUCLEUS;
        loop {
            ranked = ranked.min(self.0.len());
            self.rank_first(ranked);
            let mut sum = 0.0;
            let enough = self.0[..ranked].iter().position(|c| {
                sum += c.weight;
                sum >= wanted
            });
            if let Some(last) = enough {
                return self.0.truncate(last + 1);
            }
            if ranked == self.0.len() {
                return;
            }
            ranked *= 4;
        }
    }

    /// Brings the `n` likeliest to the front, in order.
    fn rank_first(&mut self, n: usize) {
        if n < self.0.len() && n > 0 {
            self.0.select_nth_unstable_by(n - 1, rank);
        }
        self.0[..n].sort_unstable_by(rank);
    }

    fn total(&self) -> f64 {
        self.0.iter().map(|c| c.weight).sum()
    }

    /// The token at `u` (in 0..1) of the cumulative distribution.
    pub(super) fn pick(&self, u: f64) -> Option<u32> {
        let wanted = u * self.total();
        let mut sum = 0.0;
        let hit = self.0.iter().find(|c| {
            sum += c.weight;
            sum > wanted
        });
        hit.or(self.0.last()).map(|c| c.id)
    }
}
