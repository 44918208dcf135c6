//! The stream of one request: polls its choices in turn and keeps the request's timeline.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::choice::Choice;
use super::timeline::{Stage, Timeline};
use crate::chat;
use crate::error::Error;

/// Events of all choices: (choice index, event). Ends after each choice's `Finish`, or after the first error. Dropping it
/// aborts whatever still runs.
pub struct GenerationStream {
    choices: Vec<Choice>,
    next: usize,
    timeline: Arc<Timeline>,
}

impl GenerationStream {
    pub(super) fn new(choices: Vec<Choice>, timeline: Arc<Timeline>) -> Self {
        Self { choices, next: 0, timeline }
    }

    /// Where the time goes.
    #[must_use]
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    fn poll_choices(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(u32, chat::Event), Error>>> {
        let mut open = false;
        for turn in 0..self.choices.len() {
            let at = (self.next + turn) % self.choices.len();
            match self.choices[at].poll_event(cx, &self.timeline) {
                Poll::Ready(Some(Ok(event))) => {
                    self.next = at + 1;
                    self.timeline.event();
                    return Poll::Ready(Some(Ok((self.choices[at].index(), event))));
                }
                Poll::Ready(Some(Err(error))) => {
                    self.choices.clear();
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {}
                Poll::Pending => open = true,
            }
        }
        if open { Poll::Pending } else { Poll::Ready(None) }
    }
}

impl Stream for GenerationStream {
    type Item = Result<(u32, chat::Event), Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.timeline.resume();
        let polled = self.poll_choices(cx);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(_))) => self.timeline.suspend(Stage::ClientWrite),
            Poll::Ready(_) => self.timeline.enter(Stage::Done),
        }
        polled
    }
}

impl Drop for GenerationStream {
    fn drop(&mut self) {
        self.timeline.enter(Stage::Done);
    }
}

impl fmt::Debug for GenerationStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenerationStream").field("choices", &self.choices.len()).finish_non_exhaustive()
    }
}
