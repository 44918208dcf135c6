//! One recording being played: delays are honoured, and nothing is played ahead of the reader.

use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use sluicegate_backend::api::{Stage, Usage};
use tokio::time::{Instant, Sleep};

use super::super::Piece;
use super::Counters;
use super::recording::{Action, Recording};
use crate::error::{Error, Kind};

/// Steps without a delay after which other tasks get a turn.
const BURST: u32 = 32;

pub(super) struct Player {
    recording: Arc<Recording>,
    next: usize,
    speed: f64,
    /// When the last step was due, so that a reader's delay does not add to the recorded ones.
    due: Instant,
    /// `due` is that of the next step.
    armed: bool,
    sleep: Option<Pin<Box<Sleep>>>,
    ready: VecDeque<Piece>,
    tokens: u32,
    burst: u32,
    over: bool,
    counters: Arc<Counters>,
}

impl Player {
    pub(super) fn new(recording: Arc<Recording>, speed: f64, counters: Arc<Counters>) -> Self {
        counters.started.fetch_add(1, Ordering::Relaxed);
        let cached = Piece::Cached(recording.cached_tokens);
        Self {
            recording,
            next: 0,
            speed,
            due: Instant::now(),
            armed: false,
            sleep: None,
            ready: VecDeque::from([Piece::Stage(Stage::Prefill), cached, Piece::Stage(Stage::Decode)]),
            tokens: 0,
            burst: 0,
            over: false,
            counters,
        }
    }

    /// Waits until the next step is due.
    fn poll_due(&mut self, cx: &mut Context<'_>, delay_ms: f64) -> Poll<()> {
        if !self.armed {
            self.armed = true;
            let delay = if self.speed > 0.0 { delay_ms / self.speed } else { 0.0 };
            // A delay beyond a year would only be a slip of the pen.
            self.due += Duration::from_secs_f64((delay / 1000.0).clamp(0.0, 3.2e7));
            self.sleep = (self.due > Instant::now()).then(|| Box::pin(tokio::time::sleep_until(self.due)));
        }
        match &mut self.sleep {
            Some(sleep) => {
                ready!(sleep.as_mut().poll(cx));
                self.burst = 0;
            }
            None => ready!(self.poll_turn(cx)),
        }
        self.sleep = None;
        self.armed = false;
        Poll::Ready(())
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.burst += 1;
        if self.burst > BURST {
            self.burst = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn end(&mut self) {
        if !self.over {
            self.over = true;
            self.counters.finished.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn play(&mut self, action: Action) -> Result<Option<Piece>, Error> {
        match action {
            Action::Text { text, ids, tokens } => {
                self.tokens = self.tokens.saturating_add(tokens);
                Ok(Some(Piece::Text { text, ids, tokens }))
            }
            Action::Ids(ids) => {
                self.tokens = self.tokens.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX));
                self.ready.extend(ids.into_iter().map(|(id, logprobs)| Piece::Token { id, logprobs }));
                Ok(self.ready.pop_front())
            }
            Action::Finish { cause, completion_tokens } => {
                self.end();
                let usage = Usage {
                    prompt_tokens: self.recording.prompt_tokens,
                    cached_tokens: self.recording.cached_tokens,
                    completion_tokens: completion_tokens.unwrap_or(self.tokens),
                };
                Ok(Some(Piece::Finished { cause, usage }))
            }
            Action::Error(message) => {
                self.end();
                let name = &self.recording.name;
                Err(Error::new(Kind::Upstream, format!("{message} (recording {name:?})")))
            }
            Action::Stall => Ok(None),
        }
    }
}

impl Stream for Player {
    type Item = Result<Piece, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(piece) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(piece)));
            }
            if this.over {
                return Poll::Ready(None);
            }
            let Some(step) = this.recording.steps.get(this.next) else {
                // Cut: the stream closes without an end.
                this.end();
                return Poll::Ready(None);
            };
            let (delay, action) = (step.delay_ms, step.action.clone());
            if action == Action::Stall {
                return Poll::Pending;
            }
            ready!(this.poll_due(cx, delay));
            this.next += 1;
            match this.play(action) {
                Ok(None) => {}
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        if !self.over {
            self.counters.aborted.fetch_add(1, Ordering::Relaxed);
        }
    }
}
