//! Shutting down in three steps: no new work, an end to running work, an end to connections.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Shared by everything that has to notice.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    begun: CancellationToken,
    expired: CancellationToken,
    over: CancellationToken,
}

/// How long a request that was told to end may take to write its error.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Drain {
    /// No new connections; running requests go on.
    #[must_use]
    pub fn begun(&self) -> CancellationToken {
        self.begun.clone()
    }

    /// Running requests end with an error.
    #[must_use]
    pub fn expired(&self) -> CancellationToken {
        self.expired.clone()
    }

    /// Connections are dropped.
    #[must_use]
    pub fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    /// Whether draining has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Begins to drain, and returns when `idle` completes or the limit and a last second have passed.
    pub async fn run(&self, limit: Duration, idle: impl Future<Output = ()>) {
        self.begun.cancel();
        tokio::pin!(idle);
        if tokio::time::timeout(limit, idle.as_mut()).await.is_err() {
            self.expired.cancel();
            let _ = tokio::time::timeout(LAST_WORDS, idle).await;
        }
        self.over.cancel();
    }
}
