//! A streamed answer: one task per request moves events from the generation to the socket.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Version;
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc::{self, Sender, error::TrySendError};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::chunk::ChunkWriter;
use super::ticket::Ticket;
use crate::api::error::Envelope;
use crate::api::sse;
use crate::chat::Event;
use crate::error::{Error, Kind};
use crate::generate::GenerationStream;
use crate::layers::Deadline;
use crate::peer::Peer;

/// Frames between the task and the socket. When they are full the task waits, then the generation waits.
const FRAMES: usize = 16;
/// Comments that find out whether a client that stopped sending still reads, and the time between them.
const PROBES: u8 = 4;
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// What a stream needs besides its events.
#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) ticket: Ticket,
    pub(super) writer: ChunkWriter,
    pub(super) peer: Arc<Peer>,
    pub(super) version: Version,
    pub(super) deadline: Deadline,
    pub(super) draining_expired: CancellationToken,
    pub(super) keep_alive: Duration,
    pub(super) slow_client_timeout: Duration,
}

/// Answers with a stream. Headers wait for the first event, so that an early failure is a status, but not longer than
/// until the first keep-alive is due.
pub(super) async fn respond(mut streaming: Streaming, mut events: GenerationStream) -> Result<Response, Error> {
    let expired = streaming.draining_expired.clone();
    let first = tokio::select! {
        biased;
        event = events.next() => Some(event),
        () = expired.cancelled() => return Err(streaming.ticket.failed(shutting_down())),
        () = tokio::time::sleep_until(streaming.deadline.0.into()) => {
            return Err(streaming.ticket.failed(Deadline::passed()));
        }
        () = sleep(streaming.keep_alive) => None,
    };
    let first = match first {
        None => None,
        Some(Some(Ok(event))) => Some(event),
        Some(Some(Err(error))) => return Err(streaming.ticket.failed(error)),
        Some(None) => return Err(streaming.ticket.failed(cut_short())),
    };
    let (frames, mut socket) = mpsc::channel(FRAMES);
    // For as long as the body has frames. HTTP/2 tells a stream's reset from its half-close by itself.
    let hold = (streaming.version < Version::HTTP_2).then(|| streaming.peer.hold());
    let stalled = Arc::new(AtomicBool::new(false));
    tokio::spawn(streaming.run(first, events, frames, Arc::clone(&stalled)));
    let body = poll_fn(move |cx| {
        let _hold = &hold;
        // An error resets the stream, so that a client that reads again can't take what it has for a whole answer.
        let end = || stalled.swap(false, Ordering::AcqRel).then(|| Err(io::ErrorKind::TimedOut.into()));
        socket.poll_recv(cx).map(|frame| frame.map_or_else(end, |frame| Some(Ok::<Bytes, io::Error>(frame))))
    });
    Ok(sse::response(Body::from_stream(body)))
}

pub(super) fn cut_short() -> Error {
    Error::new(Kind::Upstream, "the upstream's stream ended before its answer did")
}

pub(super) fn shutting_down() -> Error {
    Error::new(Kind::Overloaded, "the server is shutting down; send the request again")
        .retry_after(Duration::from_secs(1))
}

/// Why a stream can't go on.
enum Stop {
    /// The client left.
    Gone,
    /// The client reads too slowly.
    Stalled,
    /// An error for the client.
    Failed(Error),
}

impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(Error::new(Kind::Internal, format!("an event can't be written: {error}")))
    }
}

impl Streaming {
    async fn run(
        mut self,
        first: Option<(u32, Event)>,
        events: GenerationStream,
        frames: Sender<Bytes>,
        stalled: Arc<AtomicBool>,
    ) {
        let _active = self.peer.request();
        match self.forward(first, events, &frames).await {
            Ok(()) => self.ticket.succeeded(),
            Err(Stop::Gone) => {}
            Err(Stop::Stalled) => {
                self.ticket.stalled();
                stalled.store(true, Ordering::Release);
                if self.version < Version::HTTP_2 {
                    self.peer.cut();
                }
            }
            Err(Stop::Failed(error)) => {
                tracing::warn!(id = %self.ticket.id(), kind = ?error.kind, fault = ?error.fault(), "stream failed: {error}");
                if let Ok(frame) = sse::data(&Envelope::new(&error)) {
                    let _ = self.send(&frames, frame).await;
                }
                self.ticket.failed(error);
            }
        }
    }

    /// Moves events until the end. Dropping `events`, on any way out, aborts what still runs.
    async fn forward(
        &mut self,
        first: Option<(u32, Event)>,
        mut events: GenerationStream,
        frames: &Sender<Bytes>,
    ) -> Result<(), Stop> {
        match first {
            Some((choice, event)) => self.event(choice, event, frames).await?,
            None => self.send(frames, sse::COMMENT).await?,
        }
        let peer = Arc::clone(&self.peer);
        let ended = peer.ended();
        tokio::pin!(ended);
        let silence = sleep(self.keep_alive);
        tokio::pin!(silence);
        let too_late = sleep(self.deadline.0.saturating_duration_since(Instant::now()));
        tokio::pin!(too_late);
        let expired = self.draining_expired.clone();
        let mut probes = None;
        loop {
            tokio::select! {
                biased;
                () = frames.closed() => return Err(Stop::Gone),
                () = expired.cancelled() => return Err(Stop::Failed(shutting_down())),
                () = &mut too_late => return Err(Stop::Failed(Deadline::passed())),
                () = &mut ended, if probes.is_none() => {
                    probes = Some(PROBES);
                    rest(silence.as_mut(), Duration::ZERO);
                }
                () = &mut silence => {
                    self.send(frames, sse::COMMENT).await?;
                    let probing = probes.as_mut().filter(|left| **left > 0).map(|left| *left -= 1).is_some();
                    rest(silence.as_mut(), if probing { PROBE_PAUSE } else { self.keep_alive });
                }
                event = events.next() => match event {
                    Some(Ok((choice, event))) => {
                        self.event(choice, event, frames).await?;
                        if probes.is_none_or(|left| left == 0) {
                            rest(silence.as_mut(), self.keep_alive);
                        }
                    }
                    Some(Err(error)) => return Err(Stop::Failed(error)),
                    None if self.writer.is_complete() => break,
                    None => return Err(Stop::Failed(cut_short())),
                },
            }
        }
        for frame in self.writer.end()? {
            self.send(frames, frame).await?;
        }
        Ok(())
    }

    async fn event(&mut self, choice: u32, event: Event, frames: &Sender<Bytes>) -> Result<(), Stop> {
        self.ticket.event(choice, &event);
        for frame in self.writer.event(choice, event)? {
            self.send(frames, frame).await?;
        }
        Ok(())
    }

    async fn send(&self, frames: &Sender<Bytes>, frame: Bytes) -> Result<(), Stop> {
        match frames.try_send(frame) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(Stop::Gone),
            Err(TrySendError::Full(frame)) => {
                match tokio::time::timeout(self.slow_client_timeout, frames.send(frame)).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(_)) => Err(Stop::Gone),
                    Err(_) => Err(Stop::Stalled),
                }
            }
        }
    }
}

fn rest(silence: std::pin::Pin<&mut Sleep>, pause: Duration) {
    silence.reset(tokio::time::Instant::now() + pause);
}
