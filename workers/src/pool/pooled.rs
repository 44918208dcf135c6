//! A generation as the gateway sees it: events, whatever worker they come from.

use std::task::{Context, Poll};

use sluicegate_backend::api::{EngineError, Event};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A running generation. Dropping it leaves its worker, which frees everything that it holds.
#[derive(Debug)]
pub struct Pooled {
    events: mpsc::Receiver<Event>,
    task: JoinHandle<()>,
    ended: bool,
}

impl Pooled {
    pub(super) fn new(events: mpsc::Receiver<Event>, task: JoinHandle<()>) -> Self {
        Self { events, task, ended: false }
    }

    /// The next event; none after the last one ([`Event::Finished`] or [`Event::Failed`]). Safe to cancel.
    pub async fn recv(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Like [`Self::recv`] for a poll-based stream.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.events.poll_recv(cx).map(|event| {
            let event = event.unwrap_or(Event::Failed(EngineError::ShuttingDown));
            self.ended = matches!(event, Event::Finished { .. } | Event::Failed(_));
            Some(event)
        })
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.task.abort();
    }
}
