//! The search: settings that meet in pairs of runs, whoever runs them.

use super::pairs::{Comparison, Pair, Verdict};
use super::workload::Leg;
use super::{Found, Knob, Search, Trial, TuneError, Tuning};
use crate::sample::uniform;

/// Faster at some concurrency and slower at none.
fn is_better(trials: &[Trial]) -> bool {
    let any = |verdict| trials.iter().any(|t| t.times.verdict() == verdict);
    any(Verdict::Faster) && !any(Verdict::Slower)
}

/// Settings that meet.
pub(super) struct Duel<'a, R> {
    search: &'a Search,
    /// Rows of a step.
    rows: u32,
    /// Runs all requests once.
    run: R,
    /// By concurrency, what each request generates.
    wanted: Vec<(u32, Vec<Vec<u32>>)>,
}

impl<'a, R: FnMut(&Tuning, u32) -> Result<Leg, TuneError>> Duel<'a, R> {
    pub(super) fn new(search: &'a Search, rows: u32, run: R) -> Self {
        Self { search, rows, run, wanted: Vec::new() }
    }

    pub(super) fn search(mut self, heard: &mut dyn FnMut(&Trial)) -> Result<Found, TuneError> {
        let mut found = Found { best: Tuning::default(), trials: Vec::new(), is_withdrawn: false };
        for &knob in &self.search.knobs {
            for to in knob.candidates(self.rows) {
                let candidate = knob.with(found.best, to);
                let label = (Some(knob), knob.value(&found.best), to);
                let trials = self.fight(&found.best, &candidate, label, heard)?;
                if is_better(&trials) {
                    found.best = candidate;
                }
                found.trials.extend(trials);
            }
        }
        if found.best != Tuning::default() {
            let trials = self.fight(&Tuning::default(), &found.best, (None, 0, 0), heard)?;
            if trials.iter().any(|t| t.times.verdict() == Verdict::Slower) {
                (found.best, found.is_withdrawn) = (Tuning::default(), true);
            }
            found.trials.extend(trials);
        }
        Ok(found)
    }

    /// Compares at each concurrency, and stops where the candidate is slower: it has lost.
    fn fight(
        &mut self,
        best: &Tuning,
        candidate: &Tuning,
        (knob, from, to): (Option<Knob>, u32, u32),
        heard: &mut dyn FnMut(&Trial),
    ) -> Result<Vec<Trial>, TuneError> {
        let mut trials = Vec::new();
        for &concurrency in &self.search.concurrency {
            let times = self.compare(best, candidate, concurrency)?;
            let trial = Trial { knob, from, to, concurrency, times };
            heard(&trial);
            trials.push(trial);
            if times.verdict() == Verdict::Slower {
                break;
            }
        }
        Ok(trials)
    }

    /// After a run of each that is not counted, in which recordings are made. Of two pairs, one begins with either setting.
    fn compare(&mut self, best: &Tuning, candidate: &Tuning, concurrency: u32) -> Result<Comparison, TuneError> {
        self.once(best, concurrency)?;
        self.once(candidate, concurrency)?;
        let mut pairs = Vec::with_capacity(self.search.pairs);
        for i in 0..self.search.pairs as u32 {
            let heads = uniform(u64::from(concurrency), i / 2) < 0.5;
            let pair = if heads == (i % 2 == 0) {
                let baseline = self.once(best, concurrency)?;
                Pair { baseline, candidate: self.once(candidate, concurrency)? }
            } else {
                let candidate = self.once(candidate, concurrency)?;
                Pair { baseline: self.once(best, concurrency)?, candidate }
            };
            pairs.push(pair);
        }
        Ok(Comparison::of(&pairs, self.search.risk(self.rows)))
    }

    /// Seconds of a run, whose tokens must be those of all runs.
    fn once(&mut self, tuning: &Tuning, concurrency: u32) -> Result<f64, TuneError> {
        let leg = (self.run)(tuning, concurrency)?;
        let Some((_, wanted)) = self.wanted.iter().find(|(c, _)| *c == concurrency) else {
            self.wanted.push((concurrency, leg.tokens));
            return Ok(leg.seconds);
        };
        match wanted.iter().zip(&leg.tokens).position(|(a, b)| a != b) {
            None => Ok(leg.seconds),
            Some(request) => Err(TuneError::Changed { setting: tuning.to_string(), request, concurrency }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::DeviceId;
    use crate::tune::Workload;

    const ROWS: u32 = 512;

    fn search(knobs: &[Knob]) -> Search {
        let workload = Workload { input_len: 8, output_len: 8 };
        let search = Search { knobs: knobs.to_vec(), concurrency: vec![1, 16], workload, pairs: 0 };
        Search { pairs: search.fewest_pairs(ROWS, 2), ..search }
    }

    /// A device on which a run takes what `seconds` says, times some noise.
    fn find(search: &Search, seconds: impl Fn(&Tuning, u32) -> f64) -> Found {
        let mut runs = 0;
        let run = |tuning: &Tuning, concurrency| {
            runs += 1;
            let noise = 1.0 + 0.02 * uniform(9, runs);
            Ok(Leg { seconds: seconds(tuning, concurrency) * noise, tokens: vec![vec![1, 2]] })
        };
        Duel::new(search, ROWS, run).search(&mut |_| {}).unwrap()
    }

    #[test]
    fn what_is_faster_is_chosen_and_confirmed() {
        let found = find(&search(Knob::of(DeviceId::Cuda(0))), |tuning, concurrency| {
            let fast = tuning.knobs.attention_blocks == 1024 && concurrency == 16;
            let slow = tuning.long_prefill_token_threshold > 0;
            1.0 - if fast { 0.2 } else { 0.0 } + if slow { 0.3 } else { 0.0 }
        });
        assert_eq!(found.best, Knob::AttentionBlocks.with(Tuning::default(), 1024));
        assert!(!found.is_withdrawn);
        let last = found.trials.last().unwrap();
        assert_eq!((last.knob, last.concurrency, last.times.verdict()), (None, 16, Verdict::Faster));
        assert!((last.times.ratio - 0.8).abs() < 0.02, "{last:?}");
    }

    #[test]
    fn what_makes_no_difference_is_left_alone() {
        let found = find(&search(Knob::of(DeviceId::Cuda(0))), |_, _| 1.0);
        assert_eq!(found.best, Tuning::default());
        assert!(found.trials.iter().all(|t| t.knob.is_some()), "nothing to confirm");
    }

    /// A gain at one concurrency is not bought with a loss at another; and a candidate that has lost is not measured further.
    #[test]
    fn what_is_slower_anywhere_is_not_chosen() {
        let found =
            find(&search(&[Knob::FineBuckets]), |tuning, concurrency| match (tuning.knobs.fine_buckets, concurrency) {
                (false, 1) => 0.5,
                (false, _) => 1.2,
                _ => 1.0,
            });
        assert_eq!((found.best, found.trials.len()), (Tuning::default(), 2));
        let found = find(&search(&[Knob::FineBuckets]), |t, _| if t.knobs.fine_buckets { 1.0 } else { 2.0 });
        assert_eq!(found.trials.len(), 1);
    }

    /// Each of two steps wins, and together they lose.
    #[test]
    fn what_loses_together_is_withdrawn() {
        let mut runs = 0;
        let run = |tuning: &Tuning, _| {
            runs += 1;
            // A machine that changes its mind: after the search, the chosen value is slow.
            let seconds = if tuning.knobs.fine_buckets {
                1.0
            } else if runs < 150 {
                0.5
            } else {
                2.0
            };
            Ok(Leg { seconds, tokens: Vec::new() })
        };
        let search = Search { concurrency: vec![1], pairs: 74, ..search(&[Knob::FineBuckets]) };
        let found = Duel::new(&search, ROWS, run).search(&mut |_| {}).unwrap();
        assert!(found.is_withdrawn);
        assert_eq!(found.best, Tuning::default());
    }

    #[test]
    fn a_knob_that_changes_tokens_is_an_error() {
        let run = |tuning: &Tuning, _| {
            let tokens = vec![vec![1, 2], vec![3, u32::from(tuning.knobs.fine_buckets)]];
            Ok(Leg { seconds: 1.0, tokens })
        };
        let error = Duel::new(&search(&[Knob::FineBuckets]), ROWS, run).search(&mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("fine_buckets = 0") && error.contains("request 1 of 1;"), "{error}");
    }

    /// Half of the pairs begin with the candidate, in no fixed order.
    #[test]
    fn pairs_begin_with_either() {
        let mut order = Vec::new();
        let run = |tuning: &Tuning, _| {
            order.push(tuning.knobs.fine_buckets);
            Ok(Leg { seconds: 1.0, tokens: Vec::new() })
        };
        let search = Search { concurrency: vec![1], pairs: 40, ..search(&[Knob::FineBuckets]) };
        Duel::new(&search, ROWS, run).search(&mut |_| {}).unwrap();
        let firsts: Vec<bool> = order[2..].chunks(2).map(|pair| pair[0]).collect();
        assert_eq!(firsts.iter().filter(|first| **first).count(), 20);
        assert!(firsts.chunks(2).any(|p| p[0]) && firsts.chunks(2).any(|p| !p[0]));
    }
}
