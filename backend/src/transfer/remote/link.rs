//! One connection: a thread that reads frames, a thread that writes them, and the handle that a worker holds.

use std::io::{self, BufReader, BufWriter, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use super::frame::{self, Body, Frame};
use super::tls::{Secured, Writer};
use crate::engine::Shared;

/// Frames that may wait to be written, and to be taken by the worker.
const QUEUED: usize = 256;
/// Payload bytes that may wait to be written: enough to keep a link busy for a step, and little beside the KV memory.
const QUEUED_BYTES: usize = 16 << 20;
/// How often a silent side shows that it lives.
const PING: Duration = Duration::from_secs(1);
/// How long a silent peer is believed to live.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// What a worker hears from its links.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A peer was accepted.
    Up(LinkHandle),
    /// A frame came.
    Frame(u64, Box<Frame>),
    /// The link is gone; nothing more comes from it.
    Down(u64, String),
    /// A link could not be made; the next attempt follows.
    Refused(String),
}

/// A worker's hold on a link. Dropping it ends the link.
#[derive(Debug)]
pub(crate) struct LinkHandle {
    pub(super) id: u64,
    frames: SyncSender<Frame>,
    /// Payload bytes and pages that wait to be written.
    queued: Arc<Queued>,
    stream: TcpStream,
}

#[derive(Debug, Default)]
struct Queued {
    bytes: AtomicUsize,
    pages: AtomicUsize,
}

impl Queued {
    fn add(&self, frame: &Frame) {
        self.bytes.fetch_add(frame.payload.len(), Ordering::Relaxed);
        self.pages.fetch_add(usize::from(frame.page().is_some()), Ordering::Relaxed);
    }

    fn sub(&self, frame: &Frame) {
        self.bytes.fetch_sub(frame.payload.len(), Ordering::Relaxed);
        self.pages.fetch_sub(usize::from(frame.page().is_some()), Ordering::Relaxed);
    }
}

impl LinkHandle {
    /// Queues a frame, or gives it back when the link is slow. A link that is gone takes everything.
    pub(super) fn send(&self, frame: Frame) -> Result<(), Box<Frame>> {
        // One frame may always wait, however large it is.
        let waiting = self.queued.bytes.load(Ordering::Relaxed);
        if waiting > 0 && waiting + frame.payload.len() > QUEUED_BYTES {
            return Err(Box::new(frame));
        }
        self.queued.add(&frame);
        match self.frames.try_send(frame) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(frame)) => {
                self.queued.sub(&frame);
                Err(Box::new(frame))
            }
            Err(TrySendError::Disconnected(frame)) => {
                self.queued.sub(&frame);
                Ok(())
            }
        }
    }

    /// Pages that wait to be written.
    pub(super) fn pages_in_flight(&self) -> usize {
        self.queued.pages.load(Ordering::Relaxed)
    }
}

/// Ends the connection when either of its threads ends, which wakes the other and tells the peer.
struct Ended(TcpStream);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Drop for LinkHandle {
    fn drop(&mut self) {
        // Wakes both threads; the peer sees the end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Prepares a connection for the first exchange, which must not hang.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))
}

/// Runs an authenticated connection until it ends. `Up` is sent first, `Down` last. Says whether anyone hears them.
pub(super) fn run(link: Secured, id: u64, events: &SyncSender<LinkEvent>, shared: &Arc<Shared>) -> bool {
    let why = match carry(link, id, events, shared) {
        Ok(()) => "the worker is gone".to_owned(),
        Err(e) => e.to_string(),
    };
    let heard = events.send(LinkEvent::Down(id, why)).is_ok();
    shared.wake();
    heard
}

fn carry(link: Secured, id: u64, events: &SyncSender<LinkEvent>, shared: &Arc<Shared>) -> io::Result<()> {
    let (frames, to_write) = sync_channel(QUEUED);
    let ended = Ended(link.stream().try_clone()?);
    let (stream, writers) = (ended.0.try_clone()?, Ended(ended.0.try_clone()?));
    let (reader, writer) = link.split();
    let queued = Arc::<Queued>::default();
    let (own, counted) = (Arc::clone(shared), Arc::clone(&queued));
    let write = move || write_all(writer, &to_write, &counted, &own, &writers);
    std::thread::Builder::new().name("sluicegate-link".into()).spawn(write)?;
    let up = LinkEvent::Up(LinkHandle { id, frames, queued, stream });
    if events.send(up).is_err() {
        return Ok(());
    }
    shared.wake();
    let mut from = BufReader::with_capacity(1 << 18, reader);
    loop {
        let frame = frame::read(&mut from)?;
        if frame.body == Body::Ping {
            continue;
        }
        // A worker that is busy holds the reader, and so the peer, back.
        if events.send(LinkEvent::Frame(id, Box::new(frame))).is_err() {
            return Ok(());
        }
        shared.wake();
    }
}

fn write_all(writer: Writer, frames: &Receiver<Frame>, queued: &Queued, shared: &Shared, _: &Ended) {
    let mut to = BufWriter::with_capacity(1 << 18, writer);
    let mut write = || -> io::Result<bool> {
        match frames.recv_timeout(PING) {
            Ok(frame) => {
                frame::write(&mut to, &frame)?;
                queued.sub(&frame);
            }
            Err(RecvTimeoutError::Timeout) => frame::write(&mut to, &Frame::ping())?,
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
        }
        let mut sent = 1;
        while let Some(frame) = (sent < QUEUED).then(|| frames.try_recv().ok()).flatten() {
            frame::write(&mut to, &frame)?;
            queued.sub(&frame);
            sent += 1;
            // Room in the queue is room for pages that a worker is waiting to send.
            shared.wake();
        }
        to.flush()?;
        Ok(true)
    };
    // There is room again after each round.
    while write().unwrap_or(false) {
        shared.wake();
    }
}
