//! One choice: upstream pieces → text → parser → output.

use std::sync::Arc;
use std::task::{Context, Poll};

use sluicegate_backend::api::{self, Logprobs};

use super::output::{Output, Rules};
use super::timeline::{Stage, Timeline};
use crate::chat::{self, FinishReason};
use crate::error::{Error, Kind};
use crate::plugins::{self, StopCause, Tail};
use crate::text::{Detokenizer, StopScanner};
use crate::upstream::{Cause, Piece, Pieces};

/// One choice of a request. Pieces and parser are gone once it has ended.
pub(super) struct Choice {
    index: u32,
    pieces: Option<Pieces>,
    detokenizer: Option<Detokenizer>,
    raw_stop: StopScanner,
    /// None: the route has no format, text is content.
    parser: Option<plugins::Stream>,
    output: Output,
    /// Comes after the last event.
    error: Option<Error>,
    wants_logprobs: bool,
    vocabulary_text: String,
}

impl Choice {
    pub(super) fn new(
        index: u32,
        pieces: Pieces,
        detokenizer: Option<Detokenizer>,
        parser: Option<plugins::Stream>,
        rules: &Arc<Rules>,
    ) -> Self {
        Self {
            index,
            pieces: Some(pieces),
            detokenizer,
            raw_stop: rules.raw_stop.scanner(),
            parser,
            output: Output::new(rules, index),
            error: None,
            wants_logprobs: rules.logprobs,
            vocabulary_text: String::new(),
        }
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
            if let Some(event) = self.output.pop() {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(error) = self.error.take() {
                return Poll::Ready(Some(Err(error)));
            }
            let Some(pieces) = &mut self.pieces else { return Poll::Ready(None) };
            let taken = match pieces.as_mut().poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(piece))) => self.take(piece, timeline),
                Poll::Ready(Some(Err(error))) => Err(error),
                Poll::Ready(None) => Err(Error::new(
                    Kind::Upstream,
                    "the upstream ended the stream without saying why; the answer is incomplete",
                )),
            };
            if let Err(error) = taken {
                self.fail(error);
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
            Piece::Cached(tokens) => self.output.cached_tokens = tokens,
            Piece::Token { id, logprobs } => {
                timeline.suspend(Stage::Parse);
                let taken = self.token(id, logprobs.as_deref());
                timeline.resume();
                taken?;
            }
            Piece::Text { text, ids, tokens } => {
                timeline.suspend(Stage::Parse);
                self.output.count(tokens);
                let taken = self.text(&text, &ids);
                timeline.resume();
                taken?;
            }
            Piece::Finished { cause: Cause::Deadline, .. } => {
                return Err(Error::new(Kind::Timeout, "the request's deadline passed before the answer was complete"));
            }
            Piece::Finished { cause, usage } => self.finish(cause, Some(usage))?,
        }
        Ok(())
    }

    fn token(&mut self, id: u32, logprobs: Option<&Logprobs>) -> Result<(), Error> {
        let Some(detokenizer) = &mut self.detokenizer else {
            return Err(Error::new(Kind::Internal, "the upstream speaks token ids, and this route has no tokenizer"));
        };
        let mut text = std::mem::take(&mut self.vocabulary_text);
        text.clear();
        detokenizer.push(id, &mut text);
        self.output.count(1);
        if let (true, Some(logprobs)) = (self.wants_logprobs, logprobs) {
            self.output.logprobs.push(logprobs, detokenizer.vocabulary());
        }
        let taken = self.text(&text, &[id]);
        self.vocabulary_text = text;
        taken
    }

    /// Raw text on its way to the parser. A stop string of the format ends the turn.
    fn text(&mut self, text: &str, ids: &[u32]) -> Result<(), Error> {
        let mut passed = String::new();
        let (text, stop) = if self.raw_stop.is_idle() {
            (text, None)
        } else {
            let stop = self.raw_stop.push(text, &mut passed);
            (passed.as_str(), stop)
        };
        self.parse(text, ids)?;
        match stop {
            Some(stop) if !self.output.is_over() => self.finish(Cause::StopString(stop), None),
            _ => Ok(()),
        }
    }

    fn parse(&mut self, text: &str, ids: &[u32]) -> Result<(), Error> {
        match &mut self.parser {
            Some(parser) => self.output.events(parser.push(text, ids)?),
            None if text.is_empty() => {}
            None => self.output.events([plugins::Event::Content(text.to_owned())]),
        }
        if self.output.is_over() {
            // Our own end of the turn: the upstream is aborted, and what the parser still holds lies after the end.
            self.pieces = None;
            self.parser = None;
            self.output.finish(&StopCause::Eos(None), Tail::default(), None);
        }
        Ok(())
    }

    fn finish(&mut self, cause: Cause, usage: Option<api::Usage>) -> Result<(), Error> {
        let usage = usage.map(|usage| chat::Usage {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            completion_tokens: usage.completion_tokens,
            reasoning_tokens: 0,
        });
        if !matches!(cause, Cause::StopString(_)) || usage.is_some() {
            self.release()?;
        }
        self.pieces = None;
        let filtered = cause == Cause::ContentFilter;
        let cause = stop_cause(cause);
        let mut tail = match self.parser.take() {
            Some(parser) => parser.finish(&cause)?,
            None => Tail::default(),
        };
        if filtered {
            tail.finish = Some(FinishReason::ContentFilter);
        }
        self.output.finish(&cause, tail, usage);
        Ok(())
    }

    /// Text that was waiting for more of a character or of a stop string.
    fn release(&mut self) -> Result<(), Error> {
        let mut rest = String::new();
        if let Some(detokenizer) = &mut self.detokenizer {
            detokenizer.finish(&mut rest);
        }
        let mut passed = String::new();
        // The text is over, so a stop string completed here changes nothing but what is cut.
        if self.raw_stop.push(&rest, &mut passed).is_none() {
            self.raw_stop.flush(&mut passed);
        }
        if passed.is_empty() {
            return Ok(());
        }
        match &mut self.parser {
            Some(parser) => self.output.events(parser.push(&passed, &[])?),
            None => self.output.events([plugins::Event::Content(passed)]),
        }
        Ok(())
    }

    /// Ends the choice with an error, after what can safely be shown. Open calls stay open.
    fn fail(&mut self, error: Error) {
        self.pieces = None;
        if let Some(parser) = self.parser.take()
            && let Ok(tail) = parser.finish(&StopCause::Aborted)
        {
            self.output.events(tail.events);
        }
        self.output.abandon();
        self.error = Some(error);
    }
}

fn stop_cause(cause: Cause) -> StopCause {
    match cause {
        Cause::Eos(id) => StopCause::Eos(id),
        Cause::StopString(text) => StopCause::StopString(text),
        Cause::Length => StopCause::Length,
        Cause::ContentFilter | Cause::Deadline => StopCause::Aborted,
    }
}
