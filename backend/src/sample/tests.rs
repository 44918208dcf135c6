//! Laws of sampling, against naive re-computations.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Scratch, draw, sample};
use crate::api::Sampling;
use crate::exec::SampleRow;

fn row(sampling: Sampling, position: u32) -> SampleRow {
    SampleRow {
        row: 0,
        sampling: Arc::new(sampling),
        position,
        history: None,
        prompt_len: 0,
        mask: None,
        logprobs: None,
    }
}

fn greedy() -> Sampling {
    Sampling { temperature: 0.0, ..Sampling::default() }
}

fn run(logits: &[f32], row: &SampleRow) -> u32 {
    sample(&mut logits.to_vec(), row, &mut Scratch::default()).id
}

/// Every token that can be drawn, with its probability, computed from the definitions by sorting everything.
fn allowed(logits: &[f32], s: &Sampling) -> Vec<(u32, f64)> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut all: Vec<(u32, f64)> =
        (0..).zip(logits).map(|(id, &l)| (id, (f64::from(l - max) / f64::from(s.temperature)).exp())).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if s.top_k > 0 {
        all.truncate(s.top_k as usize);
    }
    let total: f64 = all.iter().map(|c| c.1).sum();
    if s.top_p < 1.0 {
        let mut sum = 0.0;
        let keep = all.iter().take_while(|c| {
            let before = sum;
            sum += c.1;
            before < f64::from(s.top_p) * total
        });
        all = keep.copied().collect();
    }
    all.retain(|c| c.1 >= f64::from(s.min_p));
    let total: f64 = all.iter().map(|c| c.1).sum();
    all.iter().map(|c| (c.0, c.1 / total)).collect()
}

fn logits() -> impl Strategy<Value = Vec<f32>> {
    // Quarter steps make ties common.
    prop::collection::vec((-40..40_i32).prop_map(|l| l as f32 / 4.0), 1..400)
}

fn sampling() -> impl Strategy<Value = Sampling> {
    (0.1..3.0_f32, 0..50_u32, 0.05..=1.0_f32, prop_oneof![Just(0.0), 0.0..1.0_f32], any::<u64>()).prop_map(
        |(temperature, top_k, top_p, min_p, seed)| Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            seed,
            ..Sampling::default()
        },
    )
}

#[test]
fn philox_gives_the_published_vectors() {
    assert_eq!(draw::philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(draw::philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let pi = draw::philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
    assert_eq!(pi, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
}

proptest! {
    #[test]
    fn greedy_is_the_first_maximum(logits in logits()) {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let first = logits.iter().position(|&l| l == max).unwrap() as u32;
        prop_assert_eq!(run(&logits, &row(greedy(), 3)), first);
    }

    #[test]
    fn only_allowed_tokens_are_drawn(logits in logits(), s in sampling(), position in any::<u32>()) {
        let allowed = allowed(&logits, &s);
        let id = run(&logits, &row(s, position));
        prop_assert!(allowed.iter().any(|c| c.0 == id));
    }

    #[test]
    fn a_draw_depends_on_row_seed_and_position_alone(logits in logits(), other in logits(), s in sampling(), at in any::<u32>()) {
        let wanted = run(&logits, &row(s.clone(), at));
        let mut used = Scratch::default();
        sample(&mut other.clone(), &row(s.clone(), at.wrapping_add(1)), &mut used);
        prop_assert_eq!(sample(&mut logits.clone(), &row(s, at), &mut used).id, wanted);
    }

    #[test]
    fn a_masked_token_is_never_drawn(logits in logits(), s in sampling(), words in prop::collection::vec(any::<u32>(), 0..13)) {
        let admits = |id: u32| words.get(id as usize / 32).is_some_and(|w| w >> (id % 32) & 1 == 1);
        prop_assume!((0..logits.len() as u32).any(admits));
        for sampling in [s, greedy()] {
            let row = SampleRow { mask: Some(Arc::from(&words[..])), ..row(sampling, 1) };
            prop_assert!(admits(run(&logits, &row)));
        }
    }

    #[test]
    fn logprobs_are_of_the_raw_row(logits in logits(), s in sampling(), n in 0..20_u8) {
        let biased = Sampling { logit_bias: vec![(0, -50.0)], ..s };
        let row = SampleRow { logprobs: Some(n), history: Some(Arc::from([0, 0])), ..row(biased, 9) };
        let drawn = sample(&mut logits.clone(), &row, &mut Scratch::default());
        let got = drawn.logprobs.unwrap();
        let sum: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
        let naive = |id: u32| f64::from(logits[id as usize]) - sum.ln();
        prop_assert_eq!(got.chosen.id, drawn.id);
        prop_assert!((f64::from(got.chosen.logprob) - naive(drawn.id)).abs() < 1e-4);
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)));
        order.truncate(usize::from(n));
        prop_assert_eq!(got.top.iter().map(|t| t.id).collect::<Vec<_>>(), order);
        prop_assert!(got.top.iter().all(|t| (f64::from(t.logprob) - naive(t.id)).abs() < 1e-4));
    }

    #[test]
    fn broken_numbers_never_panic(bits in prop::collection::vec(any::<u32>(), 1..64), s in sampling()) {
        let logits: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        let row = SampleRow { logprobs: Some(3), ..row(s, 0) };
        let drawn = sample(&mut logits.clone(), &row, &mut Scratch::default());
        prop_assert!((drawn.id as usize) < logits.len());
    }

    #[test]
    fn penalties_follow_their_definitions(history in prop::collection::vec(0..8_u32, 1..30), cut in 0..30_usize,
        presence in -2.0..2.0_f32, frequency in -2.0..2.0_f32, repetition in 0.5..2.0_f32) {
        let logits: Vec<f32> = (0..8).map(|i| i as f32 - 3.5).collect();
        let prompt_len = cut.min(history.len());
        let mut wanted = logits.clone();
        for id in 0..8_u32 {
            let l = &mut wanted[id as usize];
            if history.contains(&id) {
                *l = if *l > 0.0 { *l / repetition } else { *l * repetition };
            }
            let count = history[prompt_len..].iter().filter(|t| **t == id).count();
            if count > 0 {
                *l -= frequency * count as f32 + presence;
            }
        }
        let s = Sampling { presence_penalty: presence, frequency_penalty: frequency, repetition_penalty: repetition, ..greedy() };
        let row = SampleRow { history: Some(Arc::from(history)), prompt_len: prompt_len as u32, ..row(s, 0) };
        let mut got = logits;
        sample(&mut got, &row, &mut Scratch::default());
        prop_assert_eq!(got, wanted);
    }
}

#[test]
fn draws_follow_the_distribution() {
    let logits: Vec<f32> = (0..300).map(|i| ((i * 37 % 101) as f32).sqrt()).collect();
    let s = Sampling { temperature: 0.8, top_k: 40, top_p: 0.9, min_p: 0.01, seed: 7, ..Sampling::default() };
    let expected = allowed(&logits, &s);
    let draws = 40_000;
    let mut counts = vec![0_u32; logits.len()];
    (0..draws).for_each(|at| counts[run(&logits, &row(s.clone(), at)) as usize] += 1);
    // Pearson's statistic; its mean is the degrees of freedom, its deviation the root of twice that.
    let chi2: f64 = expected
        .iter()
        .map(|&(id, p)| (f64::from(counts[id as usize]) - p * f64::from(draws)).powi(2) / (p * f64::from(draws)))
        .sum();
    let freedom = (expected.len() - 1) as f64;
    assert!(chi2 < freedom + 5.0 * (2.0 * freedom).sqrt(), "chi2 {chi2} for {freedom} degrees of freedom");
    let bias = Sampling { logit_bias: vec![(5, 1000.0)], ..s };
    assert_eq!(run(&logits, &row(bias, 1)), 5);
}

#[test]
fn a_row_without_a_choice_gives_an_admitted_token() {
    let row = SampleRow { mask: Some(Arc::from([0, 1 << 4])), ..row(greedy(), 0) };
    assert_eq!(run(&[f32::NAN; 64], &row), 36);
}
