//! The engine in this process.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::future::BoxFuture;
use sluicegate_backend::api::{EngineError, Event, FinishReason, GenerateRequest};
use sluicegate_backend::engine::{Engine, Generation};

use super::{Cause, Job, Piece, Started, Upstream};
use crate::error::{Error, Kind};
use crate::grammar::TokenSpace;

/// An engine in this process, under a name.
#[derive(Debug)]
pub struct Native {
    name: String,
    engine: Engine,
}

impl Native {
    /// An upstream for a running engine. `name` is for logs and metrics.
    #[must_use]
    pub fn new(name: impl Into<String>, engine: Engine) -> Self {
        Self { name: name.into(), engine }
    }
}

/// A job as an engine takes it, whose sequences have at most `longest` tokens and end with `eos_ids`.
pub(super) fn request(job: Job, longest: usize, eos_ids: &[u32]) -> GenerateRequest {
    let room = longest.saturating_sub(job.prompt.len()).max(1);
    let room = u32::try_from(room).unwrap_or(u32::MAX);
    let mut stop_ids = job.stop_ids;
    for &id in eos_ids {
        if !stop_ids.contains(&id) {
            stop_ids.push(id);
        }
    }
    GenerateRequest {
        id: job.id,
        prompt: job.prompt.to_vec(),
        sampling: job.sampling,
        stop_ids,
        max_tokens: job.max_tokens.map_or(room, |wanted| wanted.clamp(1, room)),
        logprobs: job.request.logprobs,
        grammar: job.grammar,
        priority: job.priority,
        deadline: job.deadline,
        share: job.share,
    }
}

impl Upstream for Native {
    fn name(&self) -> &str {
        &self.name
    }

    fn takes_tokens(&self) -> bool {
        true
    }

    fn token_space(&self) -> Option<TokenSpace> {
        let model = self.engine.model();
        Some(TokenSpace { size: model.vocab_size as usize, stop_ids: model.eos_ids.clone() })
    }

    fn submit(&self, job: Job) -> BoxFuture<'_, Result<Started, Error>> {
        let request = request(job, self.engine.limits().max_total_tokens, &self.engine.model().eos_ids);
        let submitted = self.engine.submit(request).map_err(refused);
        Box::pin(std::future::ready(
            submitted.map(|generation| Started { pieces: Box::pin(Tokens(generation)), prompt_tail: None }),
        ))
    }
}

/// A generation's events as pieces. Dropping it drops the generation, which aborts it.
struct Tokens(Generation);

impl Stream for Tokens {
    type Item = Result<Piece, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(piece))
    }
}

pub(super) fn piece(event: Event) -> Result<Piece, Error> {
    match event {
        Event::Stage(stage) => Ok(Piece::Stage(stage)),
        Event::Cached(tokens) => Ok(Piece::Cached(tokens)),
        Event::Token { id, logprobs } => Ok(Piece::Token { id, logprobs }),
        Event::Finished { reason, usage } => {
            let cause = match reason {
                FinishReason::Stop(id) => Cause::Eos(Some(id)),
                FinishReason::Length => Cause::Length,
                FinishReason::Deadline => Cause::Deadline,
            };
            Ok(Piece::Finished { cause, usage })
        }
        Event::Failed(error) => Err(refused(error)),
    }
}

pub(super) fn refused(error: EngineError) -> Error {
    let message = error.to_string();
    match error {
        EngineError::PromptTooLong { .. } => {
            Error::new(Kind::BadRequest, message).param("messages").code("context_length_exceeded")
        }
        EngineError::Invalid(_) => Error::new(Kind::BadRequest, message),
        EngineError::Grammar(_) => Error::new(Kind::BadRequest, message).code("grammar_failed"),
        EngineError::TooLarge { .. } => Error::new(Kind::BadRequest, message).param("messages"),
        EngineError::Overloaded { retry_after_s } => Error::new(Kind::Overloaded, message)
            .retry_after(std::time::Duration::from_secs(u64::from(retry_after_s.max(1)))),
        EngineError::ShuttingDown | EngineError::Unavailable(_) => {
            Error::new(Kind::Overloaded, message).retry_after(std::time::Duration::from_secs(1))
        }
        EngineError::Worker(_) => Error::new(Kind::Upstream, message),
    }
}
