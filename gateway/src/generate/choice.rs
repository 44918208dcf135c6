//! One choice: upstream pieces in, chat events out.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use sluicegate_backend::api::{self, Usage};

use super::timeline::{Stage, Timeline};
use crate::chat::{self, FinishReason};
use crate::error::{Error, Kind};
use crate::upstream::{Cause, Piece, Pieces};

/// One choice of a request. Its pieces are gone once it has ended.
pub(super) struct Choice {
    index: u32,
    pieces: Option<Pieces>,
    ready: VecDeque<chat::Event>,
}

impl Choice {
    pub(super) fn new(index: u32, pieces: Pieces) -> Self {
        Self { index, pieces: Some(pieces), ready: VecDeque::new() }
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// The next event; none after `Finish` or an error.
    pub(super) fn poll_event(
        &mut self,
        cx: &mut Context<'_>,
        timeline: &Timeline,
    ) -> Poll<Option<Result<chat::Event, Error>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            let Some(pieces) = &mut self.pieces else { return Poll::Ready(None) };
            let taken = match pieces.as_mut().poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(piece))) => self.take(piece, timeline),
                Poll::Ready(Some(Err(error))) => Err(error),
                Poll::Ready(None) => Err(Error::new(
                    Kind::Upstream,
                    "the upstream ended the stream without saying why; the answer may be incomplete",
                )),
            };
            if let Err(error) = taken {
                self.pieces = None;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    fn take(&mut self, piece: Piece, timeline: &Timeline) -> Result<(), Error> {
        match piece {
            Piece::Stage(stage) => timeline.enter(match stage {
                api::Stage::Prefill => Stage::Prefill,
                api::Stage::Transfer => Stage::Transfer,
                api::Stage::Decode => Stage::Decode,
            }),
            Piece::Token { .. } => {
                return Err(Error::new(Kind::Internal, "this route has no tokenizer for the upstream's tokens"));
            }
            Piece::Text { text, .. } => {
                if !text.is_empty() {
                    self.ready.push_back(chat::Event::Content(text));
                }
            }
            Piece::Finished { cause, usage } => self.finish(&cause, usage)?,
        }
        Ok(())
    }

    fn finish(&mut self, cause: &Cause, usage: Usage) -> Result<(), Error> {
        self.pieces = None;
        let reason = match cause {
            Cause::Eos(_) | Cause::StopString(_) => FinishReason::Stop,
            Cause::Length => FinishReason::Length,
            Cause::ContentFilter => FinishReason::ContentFilter,
            Cause::Deadline => return Err(Error::new(Kind::Timeout, "the request's deadline passed")),
        };
        let usage = chat::Usage {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            completion_tokens: usage.completion_tokens,
            reasoning_tokens: 0,
        };
        self.ready.push_back(chat::Event::Finish { reason, usage });
        Ok(())
    }
}
