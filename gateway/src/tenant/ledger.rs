//! One tenant's limits: every check, then every debit, in one step. A refusal changes nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::bucket::Bucket;
use crate::config;

/// Which limit refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Requests at once.
    Concurrency,
}

impl Limit {
    /// Name in errors and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Concurrency => "concurrency",
        }
    }
}

/// A refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The limit with the longest wait.
    pub limit: Limit,
    /// When it will admit the same request: exact for rates, an estimate for concurrency.
    pub retry_after: Duration,
}

/// One rate limit, as `x-ratelimit-*` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units per minute.
    pub limit: u32,
    /// Units left.
    pub remaining: u32,
    /// Until all are there again.
    pub reset: Duration,
}

/// A tenant's state at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Requests per minute, if limited.
    pub requests: Option<Rate>,
    /// Tokens per minute, if limited.
    pub tokens: Option<Rate>,
    /// Requests that run now.
    pub running: u32,
    /// Requests that may run at once, if limited.
    pub max_concurrent: Option<u32>,
}

/// The limits and what is used of them.
#[derive(Debug)]
pub struct Ledger {
    max_concurrent: Option<u32>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    running: u32,
    /// Moving average of how long requests run, to guess when a slot comes free.
    duration: Duration,
}

impl Ledger {
    /// Limits of a configured tenant, all of them unused.
    #[must_use]
    pub fn new(config: &config::Tenant, now: Instant) -> Self {
        let bucket = |per_minute: Option<u32>| per_minute.map(|n| Bucket::new(n, now));
        Self {
            max_concurrent: config.max_concurrent_requests,
            state: Mutex::new(State {
                requests: bucket(config.requests_per_minute),
                tokens: bucket(config.tokens_per_minute),
                running: 0,
                duration: Duration::from_secs(1),
            }),
        }
    }

    /// Whether a request of `tokens` would be admitted. Debits nothing.
    ///
    /// # Errors
    /// The limit that stands in the way.
    pub fn check(&self, tokens: u64, now: Instant) -> Result<(), Refusal> {
        self.checked(&self.lock(), tokens, now)
    }

    /// Admits a request: one request, `tokens` and one slot are taken, or nothing is.
    ///
    /// # Errors
    /// The limit that stands in the way.
    pub fn admit(&self, tokens: u64, now: Instant) -> Result<(), Refusal> {
        let mut state = self.lock();
        self.checked(&state, tokens, now)?;
        if let Some(bucket) = &mut state.requests {
            bucket.take(1, now);
        }
        if let Some(bucket) = &mut state.tokens {
            bucket.take(tokens, now);
        }
        state.running += 1;
        Ok(())
    }

    /// Ends a request that was admitted with `reserved` tokens, used `used` and ran for `duration`.
    pub fn settle(&self, reserved: u64, used: u64, duration: Duration, now: Instant) {
        let mut state = self.lock();
        if let Some(bucket) = &mut state.tokens {
            bucket.give(reserved.saturating_sub(used), now);
            bucket.take(used.saturating_sub(reserved), now);
        }
        state.running = state.running.saturating_sub(1);
        state.duration = (state.duration * 7 + duration) / 8;
    }

    /// The present state.
    #[must_use]
    pub fn standing(&self, now: Instant) -> Standing {
        let state = self.lock();
        let rate = |bucket: &Bucket| Rate {
            limit: bucket.capacity(),
            remaining: bucket.remaining(now),
            reset: bucket.until_full(now),
        };
        Standing {
            requests: state.requests.as_ref().map(rate),
            tokens: state.tokens.as_ref().map(rate),
            running: state.running,
            max_concurrent: self.max_concurrent,
        }
    }

    fn checked(&self, state: &State, tokens: u64, now: Instant) -> Result<(), Refusal> {
        let wait = |bucket: &Option<Bucket>, cost| bucket.as_ref().map_or(Duration::ZERO, |b| b.wait_for(cost, now));
        let slot = match self.max_concurrent {
            Some(max) if state.running >= max => (state.duration / max.max(1)).max(Duration::from_secs(1)),
            _ => Duration::ZERO,
        };
        let waits = [
            (Limit::Concurrency, slot),
            (Limit::Requests, wait(&state.requests, 1)),
            (Limit::Tokens, wait(&state.tokens, tokens)),
        ];
        match waits.into_iter().max_by_key(|(_, wait)| *wait) {
            Some((limit, retry_after)) if !retry_after.is_zero() => Err(Refusal { limit, retry_after }),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the numbers are valid after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
