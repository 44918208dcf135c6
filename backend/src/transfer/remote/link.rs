//! One connection: a thread that reads frames, a thread that writes them, and the handle that a worker holds.

use std::io::{self, BufReader, BufWriter, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use super::frame::{self, Body, Frame};
use crate::engine::Shared;

/// Frames that may wait to be written, and to be taken by the worker.
const QUEUED: usize = 64;
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
}

/// A worker's hold on a link. Dropping it ends the link.
#[derive(Debug)]
pub(crate) struct LinkHandle {
    pub(super) id: u64,
    frames: SyncSender<Frame>,
    stream: TcpStream,
}

impl LinkHandle {
    /// Queues a frame, or gives it back when the link is slow. A link that is gone takes everything.
    pub(super) fn send(&self, frame: Frame) -> Result<(), Box<Frame>> {
        match self.frames.try_send(frame) {
            Err(TrySendError::Full(frame)) => Err(Box::new(frame)),
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }
}

impl Drop for LinkHandle {
    fn drop(&mut self) {
        // Wakes both threads; the peer sees the end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Links carry no encryption.
pub(super) fn require_loopback(address: SocketAddr) -> io::Result<()> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let why = format!("{address} is not a loopback address; links are not encrypted, use a TLS tunnel between hosts");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Prepares a connection for the first exchange, which must not hang.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))
}

/// Runs an authenticated connection until it ends. `Up` is sent first, `Down` last.
pub(super) fn run(stream: TcpStream, id: u64, events: &SyncSender<LinkEvent>, shared: &Arc<Shared>) {
    let why = match carry(&stream, id, events, shared) {
        Ok(()) => "the worker is gone".to_owned(),
        Err(e) => e.to_string(),
    };
    let _ = stream.shutdown(Shutdown::Both);
    let _ = events.send(LinkEvent::Down(id, why));
    shared.wake();
}

fn carry(stream: &TcpStream, id: u64, events: &SyncSender<LinkEvent>, shared: &Arc<Shared>) -> io::Result<()> {
    let (frames, to_write) = sync_channel(QUEUED);
    let writer = stream.try_clone()?;
    let own = Arc::clone(shared);
    std::thread::Builder::new().name("sluicegate-link".into()).spawn(move || write_all(&writer, &to_write, &own))?;
    let up = LinkEvent::Up(LinkHandle { id, frames, stream: stream.try_clone()? });
    if events.send(up).is_err() {
        return Ok(());
    }
    shared.wake();
    let mut from = BufReader::with_capacity(1 << 18, stream);
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

fn write_all(stream: &TcpStream, frames: &Receiver<Frame>, shared: &Shared) {
    let mut to = BufWriter::with_capacity(1 << 18, stream);
    let mut write = || -> io::Result<bool> {
        match frames.recv_timeout(PING) {
            Ok(frame) => frame::write(&mut to, &frame)?,
            Err(RecvTimeoutError::Timeout) => frame::write(&mut to, &Frame::ping())?,
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
        }
        let mut sent = 1;
        while let Some(frame) = (sent < QUEUED).then(|| frames.try_recv().ok()).flatten() {
            frame::write(&mut to, &frame)?;
            sent += 1;
        }
        to.flush()?;
        Ok(true)
    };
    // There is room again after each round.
    while write().unwrap_or(false) {
        shared.wake();
    }
    let _ = stream.shutdown(Shutdown::Both);
}
