//! Engines in other processes.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::future::BoxFuture;
use sluicegate_workers::{Pooled, WorkerPool};

use super::native::{piece, refused, request};
use super::{Job, Piece, Started, Upstream};
use crate::error::Error;
use crate::grammar::TokenSpace;

/// A pool of workers, under a name.
#[derive(Debug)]
pub struct Workers {
    name: String,
    pool: WorkerPool,
    context_length: usize,
    space: TokenSpace,
}

impl Workers {
    /// An upstream for a pool that serves a model with these tokens. `name` is for logs and metrics.
    #[must_use]
    pub fn new(name: impl Into<String>, pool: WorkerPool, context_length: usize, space: TokenSpace) -> Self {
        Self { name: name.into(), pool, context_length, space }
    }
}

impl Upstream for Workers {
    fn name(&self) -> &str {
        &self.name
    }

    fn takes_tokens(&self) -> bool {
        true
    }

    fn token_space(&self) -> Option<TokenSpace> {
        Some(self.space.clone())
    }

    fn submit(&self, job: Job) -> BoxFuture<'_, Result<Started, Error>> {
        let request = request(job, self.context_length, &self.space.stop_ids);
        Box::pin(async move {
            let generation = self.pool.submit(request).await.map_err(refused)?;
            Ok(Started { pieces: Box::pin(Tokens(generation)), prompt_tail: None })
        })
    }
}

/// A generation's events as pieces. Dropping it leaves the worker.
struct Tokens(Pooled);

impl Stream for Tokens {
    type Item = Result<Piece, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(piece))
    }
}
