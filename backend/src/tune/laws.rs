//! Laws of comparing by pairs: a difference is found, none is claimed where there is none, an outlier decides nothing.

use proptest::prelude::*;

use super::pairs::{Comparison, Pair, Verdict, fewest, rank};

fn pairs(ratios: &[f64]) -> Vec<Pair> {
    ratios
        .iter()
        .enumerate()
        .map(|(i, r)| Pair { baseline: 1.0 + i as f64 * 0.01, candidate: (1.0 + i as f64 * 0.01) * r })
        .collect()
}

fn ratios(range: std::ops::Range<f64>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(range, 12..40)
}

/// How often heads and tails alone lead to an interval without 1, over all outcomes of so many tosses.
fn false_claims(tosses: usize, risk: f64) -> (u64, u64) {
    let mut claims = 0;
    for outcome in 0..1_u32 << tosses {
        let sides: Vec<f64> = (0..tosses).map(|i| if outcome >> i & 1 == 1 { 1.1 } else { 0.9 }).collect();
        claims += u64::from(Comparison::of(&pairs(&sides), risk).verdict() != Verdict::NoDifference);
    }
    (claims, 1 << tosses)
}

#[test]
fn no_difference_is_claimed_at_most_at_the_stated_rate() {
    for tosses in 1..=13 {
        for risk in [0.5, 0.1, 0.05, 0.01] {
            let (claims, all) = false_claims(tosses, risk);
            assert!(claims as f64 <= risk * all as f64, "{claims} of {all} with {tosses} pairs at {risk}");
        }
    }
    // And the interval is no wider than it has to be.
    assert!(false_claims(12, 0.05).0 > 0);
}

/// The ranks that tables of the sign test give for an interval of 95 %.
#[test]
fn ranks_are_those_of_the_tables() {
    for (pairs, expected) in [(5, 0), (6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8), (40, 14)] {
        assert_eq!(rank(pairs, 0.05), expected, "{pairs} pairs");
    }
    assert_eq!([0, 1, 2].map(|wrong| fewest(0.05, wrong)), [6, 9, 12]);
}

/// Slow machines drift, and every second pair begins with the other way.
#[test]
fn a_drift_is_no_difference() {
    let drift = 1.03;
    let sample: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { drift } else { 1.0 / drift }).collect();
    assert_eq!(Comparison::of(&pairs(&sample), 0.05).verdict(), Verdict::NoDifference);
}

proptest! {
    #[test]
    fn a_known_difference_is_found(noise in ratios(0.97..1.03), factor in 0.5_f64..0.96) {
        let faster: Vec<f64> = noise.iter().map(|n| n * factor).collect();
        let found = Comparison::of(&pairs(&faster), 0.05);
        prop_assert_eq!(found.verdict(), Verdict::Faster);
        prop_assert!(found.low <= found.ratio && found.ratio <= found.high);
        prop_assert!((found.ratio / factor - 1.0).abs() < 0.031, "{} for {}", found.ratio, factor);
        let slower: Vec<f64> = faster.iter().map(|r| 1.0 / r).collect();
        prop_assert_eq!(Comparison::of(&pairs(&slower), 0.05).verdict(), Verdict::Slower);
    }

    /// Whatever becomes of one pair, each end of the interval stays between its old neighbours.
    #[test]
    fn an_outlier_moves_an_end_by_one_place(sample in ratios(0.5..2.0), at in any::<prop::sample::Index>(), wrong in 1e-6_f64..1e6) {
        let mut sorted = sample.clone();
        sorted.sort_by(f64::total_cmp);
        let (n, k) = (sorted.len(), rank(sorted.len(), 0.05));
        prop_assert!(k >= 2);
        let mut changed = sample;
        let at = at.index(n);
        changed[at] = wrong;
        let found = Comparison::of(&pairs(&changed), 0.05);
        let near = |x: f64, low: f64, high: f64| low * (1.0 - 1e-12) <= x && x <= high * (1.0 + 1e-12);
        prop_assert!(near(found.low, sorted[k - 2], sorted[k]), "{found:?}");
        prop_assert!(near(found.high, sorted[n - k - 1], sorted[n - k + 1]), "{found:?}");
    }

    #[test]
    fn one_outlier_does_not_decide(at in 0_usize..20, wrong in 1e-6_f64..1e6, risk in 0.0005_f64..0.2) {
        let mut sample = vec![1.0; 20];
        sample[at] = wrong;
        prop_assert_eq!(Comparison::of(&pairs(&sample), risk).verdict(), Verdict::NoDifference);
        let mut sample = vec![0.9; 20];
        sample[at] = wrong;
        prop_assert_eq!(Comparison::of(&pairs(&sample), risk).verdict(), Verdict::Faster);
    }

    #[test]
    fn a_smaller_risk_never_narrows(sample in ratios(0.5..2.0), risk in 0.0001_f64..0.5) {
        let (wide, narrow) = (Comparison::of(&pairs(&sample), risk / 10.0), Comparison::of(&pairs(&sample), risk));
        prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
    }

    #[test]
    fn fewest_is_the_first_that_stands_outliers(risk in 0.0001_f64..0.5, wrong in 0_usize..5) {
        let n = fewest(risk, wrong);
        prop_assert!(rank(n, risk) > wrong && (n == 1 || rank(n - 1, risk) <= wrong));
    }
}
