//! A token bucket that can be asked without being debited, and that takes back what was reserved too much.
//!
//! `governor` offers neither: its check debits, and a debit is final. Admission here asks several limits, debits
//! all or none, and later settles a reservation with the true count. The level may fall below zero (a debt), because
//! a running stream is finished even when it costs more than was reserved.

use std::time::{Duration, Instant};

/// Nanoseconds in a minute: one unit, in the level's fixed point.
const UNIT: i128 = 60_000_000_000;

/// A bucket that holds `per_minute` units when full and refills at that rate.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    per_minute: u32,
    /// Units times `UNIT`, so that refilling is exact.
    level: i128,
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    #[must_use]
    pub(super) fn new(per_minute: u32, now: Instant) -> Self {
        Self { per_minute, level: i128::from(per_minute) * UNIT, at: now }
    }

    /// Units it holds when full.
    #[must_use]
    pub(super) fn capacity(&self) -> u32 {
        self.per_minute
    }

    /// Whole units available.
    #[must_use]
    pub(super) fn remaining(&self, now: Instant) -> u32 {
        u32::try_from(self.level_at(now).max(0) / UNIT).unwrap_or(u32::MAX)
    }

    /// Time until it is full.
    #[must_use]
    pub(super) fn until_full(&self, now: Instant) -> Duration {
        self.refill_time(self.full() - self.level_at(now))
    }

    /// Time until `cost` is available; zero when it is. A cost above the capacity waits for a full bucket: it would
    /// otherwise wait for ever.
    #[must_use]
    pub(super) fn wait_for(&self, cost: u64, now: Instant) -> Duration {
        let cost = i128::from(cost.min(u64::from(self.per_minute))) * UNIT;
        self.refill_time(cost - self.level_at(now))
    }

    /// Removes `cost`, below zero if need be.
    pub(super) fn take(&mut self, cost: u64, now: Instant) {
        self.level = self.level_at(now) - i128::from(cost) * UNIT;
        self.at = self.at.max(now);
    }

    /// Puts `amount` back; what does not fit is lost.
    pub(super) fn give(&mut self, amount: u64, now: Instant) {
        self.level = (self.level_at(now) + i128::from(amount) * UNIT).min(self.full());
        self.at = self.at.max(now);
    }

    fn full(&self) -> i128 {
        i128::from(self.per_minute) * UNIT
    }

    fn level_at(&self, now: Instant) -> i128 {
        let elapsed = now.saturating_duration_since(self.at).as_nanos();
        let refill = i128::try_from(elapsed).unwrap_or(i128::MAX).saturating_mul(i128::from(self.per_minute));
        self.level.saturating_add(refill).min(self.full())
    }

    fn refill_time(&self, missing: i128) -> Duration {
        let nanoseconds = missing.max(0).unsigned_abs().div_ceil(u128::from(self.per_minute.max(1)));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wait_is_exact() {
        let start = Instant::now();
        let mut bucket = Bucket::new(7, start);
        bucket.take(7, start);
        let wait = bucket.wait_for(1, start);
        assert_eq!(bucket.remaining(start + wait), 1);
        assert_eq!(bucket.remaining(start + wait - Duration::from_nanos(1)), 0);
    }

    #[test]
    fn a_cost_above_the_capacity_waits_for_a_full_bucket() {
        let start = Instant::now();
        let mut bucket = Bucket::new(100, start);
        assert_eq!(bucket.wait_for(400, start), Duration::ZERO);
        bucket.take(400, start);
        assert_eq!(bucket.remaining(start), 0);
        assert_eq!(bucket.wait_for(1, start), Duration::from_millis(180_600));
    }

    proptest! {
        /// Never above full, and over any history: level = start + refilled - taken + given, unless it was full.
        #[test]
        fn levels_stay_in_bounds(
            per_minute in 1u32..5000,
            steps in prop::collection::vec((0u64..90_000, 0u64..6000, any::<bool>()), 0..60),
        ) {
            let mut now = Instant::now();
            let mut bucket = Bucket::new(per_minute, now);
            for (millis, amount, take) in steps {
                now += Duration::from_millis(millis);
                let before = bucket.level_at(now);
                if take { bucket.take(amount, now) } else { bucket.give(amount, now) }
                let after = bucket.level_at(now);
                let change = i128::from(amount) * UNIT;
                let expected = if take { before - change } else { (before + change).min(bucket.full()) };
                prop_assert_eq!(after, expected);
                prop_assert!(after <= bucket.full());
                prop_assert!(bucket.remaining(now) <= per_minute);
                let full = now + bucket.until_full(now);
                prop_assert_eq!(bucket.remaining(full), per_minute);
            }
        }

        /// After the wait the cost is there; a nanosecond earlier it is not.
        #[test]
        fn waits_are_tight(per_minute in 1u32..5000, taken in 0u64..20_000, cost in 1u64..6000) {
            let now = Instant::now();
            let mut bucket = Bucket::new(per_minute, now);
            bucket.take(taken, now);
            let wait = bucket.wait_for(cost, now);
            prop_assert_eq!(bucket.wait_for(cost, now + wait), Duration::ZERO);
            if wait > Duration::ZERO {
                prop_assert!(bucket.wait_for(cost, now + wait - Duration::from_nanos(1)) > Duration::ZERO);
            }
        }
    }
}
