//! Decides when a version has failed too many streams.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::settings::Settings;

/// Counts the failed streams of one version in a sliding window.
pub(super) struct Breaker {
    limit: usize,
    window: Duration,
    backoff: Duration,
    failures: VecDeque<Instant>,
    opened: u32,
    until: Option<Instant>,
}

impl Breaker {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            limit: settings.breaker_failures,
            window: Duration::from_millis(settings.breaker_window_ms),
            backoff: Duration::from_millis(settings.breaker_backoff_ms),
            failures: VecDeque::new(),
            opened: 0,
            until: None,
        }
    }

    /// Counts a failed stream. True when this one opens the breaker.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        while self.failures.front().is_some_and(|at| now.duration_since(*at) > self.window) {
            self.failures.pop_front();
        }
        self.failures.push_back(now);
        if self.failures.len() <= self.limit || self.is_open(now) {
            return false;
        }
        // 64-fold at most: a minute and a bit by default.
        self.until = Some(now + self.backoff * 2u32.pow(self.opened.min(6)));
        self.opened += 1;
        self.failures.clear();
        true
    }

    /// Whether the breaker is open.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> Breaker {
        Breaker::new(&Settings::default())
    }

    #[test]
    fn opens_on_the_fourth_failure_in_a_minute_and_backs_off_twice_as_long_each_time() {
        let (mut breaker, start) = (breaker(), Instant::now());
        let second = Duration::from_secs(1);
        assert!((0..3).all(|n| !breaker.failed(start + n * second)));
        assert!(breaker.failed(start + 3 * second));
        assert!(breaker.is_open(start + 3 * second + second / 2));
        let again = start + 5 * second;
        assert!(!breaker.is_open(again));
        assert!((0..3).all(|_| !breaker.failed(again)));
        assert!(breaker.failed(again));
        assert!(breaker.is_open(again + 2 * second - second / 10));
        assert!(!breaker.is_open(again + 2 * second));
    }

    #[test]
    fn rare_failures_never_open_it() {
        let (mut breaker, start) = (breaker(), Instant::now());
        assert!((0..1000).all(|n| !breaker.failed(start + n * Duration::from_secs(21))));
    }
}
