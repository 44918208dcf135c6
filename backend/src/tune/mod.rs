//! The tuner: which setting of each knob serves fastest on this device, by paired comparisons of the engine as it serves.
//!
//! Knobs are turned one after another. A candidate meets the best setting so far in pairs of runs, at each concurrency; it takes the place
//! of the best if it is faster at some concurrency and slower at none, both beyond doubt. At last what was chosen meets the defaults.
//! The probability that anything is chosen without there being a difference is at most [`RISK`] for the whole search.

mod card;
mod duel;
mod knob;
#[cfg(test)]
mod laws;
mod lent;
mod pairs;
mod profile;
mod workload;

use std::fmt;

pub use card::{Card, driver};
pub use knob::{Knob, Tuning};
pub use lent::{Tunable, open};
pub use pairs::{Comparison, Pair, Verdict, fewest, rank};
pub use profile::{Made, Measured, Profile, ProfileError, find, tuning};
pub use workload::Workload;

use crate::api::EngineError;
use crate::engine::StartError;
use crate::run::DeviceId;
use duel::Duel;
use workload::Bench;

/// See the file's head.
pub const RISK: f64 = 0.05;

/// What to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Knobs to turn, in this order.
    pub knobs: Vec<Knob>,
    /// Numbers of requests at a time.
    pub concurrency: Vec<u32>,
    /// The requests.
    pub workload: Workload,
    /// Pairs of a comparison.
    pub pairs: usize,
}

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The knob that differs; none: everything that was chosen, against the defaults.
    pub knob: Option<Knob>,
    /// Its best value so far.
    pub from: u32,
    /// The candidate.
    pub to: u32,
    /// Requests at a time.
    pub concurrency: u32,
    /// Times of a run of all requests.
    pub times: Comparison,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best setting.
    pub best: Tuning,
    /// All comparisons, in order.
    pub trials: Vec<Trial>,
    /// What was chosen step by step is slower than the defaults when it is taken together, so `best` is the defaults.
    pub is_withdrawn: bool,
}

/// Why a device could not be tuned.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// Nothing to compare, or too few pairs.
    #[error("{0}")]
    Search(String),
    /// No engine.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A request was refused or failed.
    #[error("a request of the workload failed: {0}")]
    Request(EngineError),
    /// A knob changed what a request generated, which none may.
    #[error(
        "{setting} changed tokens of request {request} of {concurrency}; this is a bug of Sluicegate, please report it"
    )]
    Changed {
        /// What was set.
        setting: String,
        /// The first request whose tokens differ.
        request: usize,
        /// Requests at a time.
        concurrency: u32,
    },
}

impl Search {
    /// Comparisons of the whole search.
    fn trials(&self, rows: u32) -> usize {
        let candidates: usize = self.knobs.iter().map(|knob| knob.candidates(rows).len()).sum();
        (candidates + 1) * self.concurrency.len()
    }

    /// The risk of each comparison: so many together have [`RISK`] at most (Bonferroni).
    fn risk(&self, rows: u32) -> f64 {
        RISK / self.trials(rows).max(1) as f64
    }

    /// The fewest pairs with which so many wrong ones can't decide a comparison, where a step has at most `rows` rows.
    #[must_use]
    pub fn fewest_pairs(&self, rows: u32, wrong: usize) -> usize {
        fewest(self.risk(rows), wrong)
    }

    fn check(&self, device: &dyn Tunable) -> Result<(), TuneError> {
        let rows = device.capacity().rows;
        let refuse = |text: String| Err(TuneError::Search(text));
        if self.knobs.iter().all(|knob| knob.candidates(rows).is_empty()) || self.concurrency.is_empty() {
            return refuse(format!(
                "there is nothing to compare: no knob has another value for steps of {rows} tokens"
            ));
        }
        let (needed, trials) = (self.fewest_pairs(rows, 1), self.trials(rows));
        if self.pairs < needed {
            return refuse(format!(
                "{} pairs are too few: of {trials} comparisons none may be decided by chance or by one outlier, which takes {needed}",
                self.pairs
            ));
        }
        let (context, longest) = (device.model().context_length, self.workload.longest());
        if longest > context {
            return refuse(format!(
                "the longest request has {longest} tokens, the model's context {context}; use shorter ones"
            ));
        }
        Ok(())
    }
}

/// Searches on a device. `heard` hears of each comparison as it ends.
///
/// # Errors
/// See [`TuneError`].
pub fn run(search: &Search, device: Box<dyn Tunable>, heard: &mut dyn FnMut(&Trial)) -> Result<Found, TuneError> {
    search.check(&*device)?;
    let rows = device.capacity().rows;
    let mut bench = Bench::new(device, search.workload);
    Duel::new(search, rows, |tuning, concurrency| bench.run(tuning, concurrency)).search(heard)
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Knob::of(DeviceId::Cuda(0)).iter().map(|knob| format!("{knob} = {}", knob.value(self)));
        f.write_str(&all.collect::<Vec<_>>().join(", "))
    }
}
