//! The stream between one sequence and its client: bounded, never blocking the engine, aborted by `Drop`.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::pause::Pause;
use super::shared::Shared;
use crate::api::Event;
use crate::transfer::remote::RemoteOutlet;

/// Events that may be sent whether or not the client keeps up: three stages, the cached count
/// and the end.
const RESERVED: usize = 5;

/// A running generation. Dropping it aborts the sequence and frees everything it holds, at any moment.
#[derive(Debug)]
pub struct Generation {
    events: mpsc::Receiver<Event>,
    pause: Arc<Pause>,
    shared: Arc<Shared>,
    ended: bool,
}

impl Generation {
    /// The next event; `None` after the last one ([`Event::Finished`] or [`Event::Failed`]).
    ///
    /// Safe to cancel: an event is either returned or still in the stream.
    pub async fn recv(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        let event = self.events.recv().await;
        Some(self.received(event))
    }

    /// Like [`Self::recv`] for a plain thread.
    pub fn blocking_recv(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        let event = self.events.blocking_recv();
        Some(self.received(event))
    }

    /// Like [`Self::recv`] for a poll-based stream.
    pub fn poll_recv(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<Event>> {
        if self.ended {
            return std::task::Poll::Ready(None);
        }
        self.events.poll_recv(cx).map(|event| Some(self.received(event)))
    }

    fn received(&mut self, event: Option<Event>) -> Event {
        // A stream that closes without an end lost its worker: say so, instead of looking like a short answer.
        let event = event.unwrap_or_else(|| Event::Failed(self.shared.why_lost()));
        self.ended = matches!(event, Event::Finished { .. } | Event::Failed(_));
        if self.pause.has_read() {
            self.shared.wake();
        }
        event
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.events.close();
        if !self.ended {
            self.shared.wake();
        }
    }
}

/// The engine's end of a sequence's client.
#[derive(Debug)]
pub(crate) enum Outlet {
    /// A stream in this process.
    Stream(StreamEnd),
    /// A decode worker at the other end of a link, which has the client.
    Remote(RemoteOutlet),
}

impl Outlet {
    /// Whether the client has gone.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Stream(s) => s.events.is_closed(),
            Self::Remote(r) => r.is_closed(),
        }
    }

    /// Whether `tokens` more tokens fit. If not, the client's next read wakes the engine.
    pub(crate) fn has_room(&self, tokens: usize) -> bool {
        match self {
            Self::Stream(s) => s.has_room(tokens),
            Self::Remote(_) => true,
        }
    }

    /// Tokens that fit now.
    pub(crate) fn room(&self) -> usize {
        match self {
            Self::Stream(s) => s.events.capacity().saturating_sub(RESERVED),
            Self::Remote(_) => usize::MAX,
        }
    }

    /// Sends without blocking. Room was checked with [`Self::has_room`] or is reserved; a client that left is swept later.
    pub(crate) fn send(&self, event: Event) {
        match self {
            Self::Stream(s) => s.send(event),
            Self::Remote(r) => r.send(&event),
        }
    }
}

/// The engine's end of a stream.
#[derive(Debug)]
pub(crate) struct StreamEnd {
    events: mpsc::Sender<Event>,
    pause: Arc<Pause>,
}

impl StreamEnd {
    fn has_room(&self, tokens: usize) -> bool {
        self.pause.has_room(|| self.events.capacity() >= tokens + RESERVED)
    }

    fn send(&self, event: Event) {
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) {
            debug_assert!(false, "event sent without room: {event:?}");
            tracing::error!(?event, "an event was sent without room and is lost");
        }
    }
}

/// Both ends of a new stream.
pub(super) fn stream(tokens: usize, shared: Arc<Shared>) -> (Outlet, Generation) {
    let (send, events) = mpsc::channel(tokens + RESERVED);
    let pause = Arc::new(Pause::default());
    (
        Outlet::Stream(StreamEnd { events: send, pause: Arc::clone(&pause) }),
        Generation { events, pause, shared, ended: false },
    )
}
