//! What int8 activations cost: fast arithmetic against the reference, on the golden NVFP4 model.

use sluicegate_backend::run::CpuRunOptions;

use crate::drive::{logits, open};
use crate::golden::{Golden, argmax, model};

/// Kullback-Leibler divergence of `b`'s distribution from `a`'s, in nats.
fn divergence(a: &[f32], b: &[f32]) -> f64 {
    let normalise = |l: &[f32]| {
        let top = l.iter().fold(f32::MIN, |m, &v| m.max(v));
        let sum: f64 = l.iter().map(|&v| f64::from(v - top).exp()).sum();
        (f64::from(top), sum.ln())
    };
    let ((ta, sa), (tb, sb)) = (normalise(a), normalise(b));
    let term = |(&x, &y): (&f32, &f32)| {
        let p = f64::from(x) - ta - sa;
        p.exp() * (p - (f64::from(y) - tb - sb))
    };
    a.iter().zip(b).map(term).sum()
}

/// Mean divergence and rate of equal argmax over pairs of (reference, fast) rows.
pub(crate) fn compare(pairs: &[(Vec<f32>, Vec<f32>)]) -> (f64, f64) {
    let rows = pairs.len() as f64;
    let kl = pairs.iter().map(|(a, b)| divergence(a, b)).sum::<f64>() / rows;
    let agree = pairs.iter().filter(|(a, b)| argmax(a) == argmax(b)).count() as f64 / rows;
    println!("fast against reference, {rows} positions: mean KL {kl:.5}, argmax equal at {:.1} %", agree * 100.0);
    (kl, agree)
}

#[test]
fn fast_arithmetic_stays_close_to_the_reference() {
    let golden = Golden::read("llama_nvfp4");
    let dir = model("llama_nvfp4_modelopt");
    let (mut reference, mut fast) = (open(&dir, CpuRunOptions::reference()), open(&dir, CpuRunOptions::default()));
    let table: Vec<u32> = (0..32).collect();
    let mut pairs = Vec::new();
    for p in &golden.prompts {
        let tokens: Vec<u32> = p.ids.iter().chain(&p.greedy).copied().collect();
        let a = logits(&mut reference, &tokens, &[160], &table);
        pairs.extend(a.into_iter().zip(logits(&mut fast, &tokens, &[160], &table)));
    }
    let (kl, agree) = compare(&pairs);
    // Random weights have no margin to spare: the oracle itself in bfloat16 agrees at 92 to 100 %.
    assert!(kl < 0.01, "mean KL {kl}");
    assert!(agree >= 0.9, "argmax agreement {agree}");
}
