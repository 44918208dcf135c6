//! The prefill side's door: accepts decode workers.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::hello::{self, End, Secret};
use super::link::{self, LinkEvent};
use crate::engine::{Phase, Shared};
use crate::exec::ModelSpec;

/// Events that may wait for the worker, of all links.
const EVENTS: usize = 256;
/// How often the door looks whether the engine ends.
const LOOK: Duration = Duration::from_millis(20);

/// Why no door was opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot listen for decode workers on {address}: {why}")]
pub struct ServeError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub why: String,
}

/// An open door.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Where it really listens.
    pub(crate) address: SocketAddr,
    pub(crate) events: Receiver<LinkEvent>,
}

/// Opens the door and accepts on a thread of its own until the engine stops.
pub(crate) fn listen(
    address: SocketAddr,
    secret: Secret,
    model: &ModelSpec,
    shared: &Arc<Shared>,
) -> Result<Listener, ServeError> {
    let failed = |e: io::Error| ServeError { address, why: e.to_string() };
    link::require_loopback(address).map_err(failed)?;
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let real = listener.local_addr().map_err(failed)?;
    let (send, events) = sync_channel(EVENTS);
    let (layout, shared) = (hello::layout(model), Arc::clone(shared));
    let accept = move || accept_all(&listener, &Arc::new(secret), layout, &send, &shared);
    std::thread::Builder::new().name("sluicegate-door".into()).spawn(accept).map_err(failed)?;
    Ok(Listener { address: real, events })
}

fn accept_all(
    listener: &TcpListener,
    secret: &Arc<Secret>,
    layout: [u8; 32],
    events: &SyncSender<LinkEvent>,
    shared: &Arc<Shared>,
) {
    let mut id = 0;
    while shared.phase() != Phase::Stopping {
        let Ok((stream, peer)) = listener.accept() else {
            std::thread::sleep(LOOK);
            continue;
        };
        id += 1;
        let (secret, events, shared) = (Arc::clone(secret), events.clone(), Arc::clone(shared));
        let welcome = move || match greet(&stream, &secret, &layout) {
            Ok(()) => {
                link::run(stream, id, &events, &shared);
            }
            Err(error) => tracing::warn!(%peer, %error, "a decode worker was refused"),
        };
        if let Err(error) = std::thread::Builder::new().name("sluicegate-link".into()).spawn(welcome) {
            tracing::error!(%error, "no thread for a decode worker");
        }
    }
}

fn greet(stream: &TcpStream, secret: &Secret, layout: &[u8; 32]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    link::prepare(stream)?;
    hello::exchange(&mut &*stream, End::Source, secret, layout)
}
