//! Log probabilities under the raw distribution: before bias, penalties, masks, temperature and filters.

use crate::api::{Logprob, Logprobs};

/// Of the chosen token and of the `n` likeliest.
pub(super) fn of(raw: &[f32], chosen: u32, n: usize) -> Logprobs {
    let finite = |l: f32| l.clamp(f32::MIN, f32::MAX);
    let max = finite(raw.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = raw.iter().filter(|l| !l.is_nan()).map(|&l| f64::from(finite(l) - max).exp()).sum();
    let log_sum = f64::from(max) + sum.ln();
    let logprob = |id: u32| {
        let logit = raw.get(id as usize).copied().filter(|l| !l.is_nan()).unwrap_or(f32::MIN);
        Logprob { id, logprob: (f64::from(finite(logit)) - log_sum) as f32 }
    };
    Logprobs { chosen: logprob(chosen), top: likeliest(raw, n).into_iter().map(logprob).collect() }
}

/// Ids of the `n` largest logits, largest first, equal ones by id. `n` is small.
fn likeliest(raw: &[f32], n: usize) -> Vec<u32> {
    let mut top: Vec<(f32, u32)> = Vec::with_capacity(n + 1);
    for (id, &logit) in raw.iter().enumerate().filter(|(_, l)| !l.is_nan()) {
        if top.len() == n && top.last().is_none_or(|worst| worst.0 >= logit) {
            continue;
        }
        let at = top.partition_point(|better| better.0 >= logit);
        top.insert(at, (logit, id as u32));
        top.truncate(n);
    }
    top.into_iter().map(|(_, id)| id).collect()
}
