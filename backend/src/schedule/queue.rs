//! The queue: by priority, then weighted fair queueing between shares by tokens, then by arrival.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, 1996): a share's virtual time grows by tokens over weight; the
//! share that is furthest behind goes first; a share that was idle starts at the present virtual time, so that
//! idleness earns no credit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::sequence::Waiting;

/// Within a share: larger priority first, then older.
type Key = (Reverse<i32>, u64);

#[derive(Debug, Default)]
struct Share {
    waiting: BTreeMap<Key, Waiting>,
    /// Tokens served over weight.
    served: f64,
}

/// Waiting sequences of all shares.
#[derive(Debug)]
pub(crate) struct FairQueue {
    shares: HashMap<u64, Share>,
    weights: HashMap<u64, u32>,
    /// Virtual time: what the share served last had been served when it was chosen.
    now: f64,
    arrivals: u64,
    len: usize,
}

impl FairQueue {
    pub(crate) fn new(weights: HashMap<u64, u32>) -> Self {
        Self { shares: HashMap::new(), weights, now: 0.0, arrivals: 0, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a new sequence and gives it its place in the order of arrival.
    pub(crate) fn push_new(&mut self, mut waiting: Waiting) {
        self.arrivals += 1;
        waiting.arrival = self.arrivals;
        self.push(waiting);
    }

    /// Adds a sequence that has an arrival already: a preempted one.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        let now = self.now;
        let share = self.shares.entry(waiting.seq.share).or_default();
        if share.waiting.is_empty() {
            share.served = share.served.max(now);
        }
        share.waiting.insert((Reverse(waiting.seq.priority), waiting.arrival), waiting);
        self.len += 1;
    }

    /// The next sequence to admit, if `fits` agrees; nobody overtakes it. Sequences that are not `eligible` (their
    /// client is slow) are passed over.
    pub(crate) fn pop_if(
        &mut self,
        eligible: impl Fn(&Waiting) -> bool,
        fits: impl FnOnce(&Waiting) -> bool,
    ) -> Option<Waiting> {
        let first = |s: &Share| s.waiting.iter().find(|(_, w)| eligible(w)).map(|(key, _)| *key);
        let candidates = self.shares.iter().filter_map(|(id, s)| first(s).map(|key| (key.0, s.served, key.1, *id)));
        let (priority, served, arrival, id) =
            candidates.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)))?;
        let share = self.shares.get_mut(&id)?;
        let key = (priority, arrival);
        if !fits(share.waiting.get(&key)?) {
            return None;
        }
        self.now = self.now.max(served);
        self.len -= 1;
        share.waiting.remove(&key)
    }

    /// Charges a share for tokens computed for it.
    pub(crate) fn charge(&mut self, share: u64, tokens: usize) {
        let weight = f64::from(self.weights.get(&share).copied().unwrap_or(1).max(1));
        let now = self.now;
        let entry = self.shares.entry(share).or_insert_with(|| Share { waiting: BTreeMap::new(), served: now });
        entry.served += tokens as f64 / weight;
    }

    /// Removes and returns the sequences for which `gone` holds, and forgets shares that are owed nothing.
    pub(crate) fn sweep(&mut self, gone: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let mut removed = Vec::new();
        for share in self.shares.values_mut() {
            let keys: Vec<Key> = share.waiting.iter().filter(|(_, w)| gone(w)).map(|(k, _)| *k).collect();
            removed.extend(keys.iter().filter_map(|k| share.waiting.remove(k)));
        }
        self.len -= removed.len();
        let now = self.now;
        self.shares.retain(|_, s| !s.waiting.is_empty() || s.served > now);
        removed
    }
}
