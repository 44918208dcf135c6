//! Throughput over the last seconds of work.

use std::time::Duration;

/// Work older than about this counts for little.
const MEMORY: Duration = Duration::from_secs(5);

/// Exponentially forgetting average of tokens per second of step time.
#[derive(Debug, Default)]
pub(super) struct Meter {
    tokens: f64,
    seconds: f64,
}

impl Meter {
    /// Adds one step.
    pub(super) fn add(&mut self, tokens: usize, took: Duration) {
        let keep = (-took.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.tokens = self.tokens * keep + tokens as f64;
        self.seconds = self.seconds * keep + took.as_secs_f64();
    }

    /// Tokens per second; 0 before the first step.
    pub(super) fn rate(&self) -> f32 {
        if self.seconds > 0.0 { (self.tokens / self.seconds) as f32 } else { 0.0 }
    }
}
