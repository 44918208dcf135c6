//! The prefill side's door: accepts decode workers.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::hello::{self, End, Secret};
use super::link::{self, LinkEvent};
use super::tls::{Identity, Secured};
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
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let real = listener.local_addr().map_err(failed)?;
    let (send, events) = sync_channel(EVENTS);
    let known = Known { identity: Identity::of(&secret).map_err(failed)?, secret, layout: hello::layout(model) };
    let shared = Arc::clone(shared);
    let accept = move || accept_all(&listener, &Arc::new(known), &send, &shared);
    std::thread::Builder::new().name("sluicegate-door".into()).spawn(accept).map_err(failed)?;
    Ok(Listener { address: real, events })
}

/// What a decode worker has to know and to have.
struct Known {
    identity: Identity,
    secret: Secret,
    layout: [u8; 32],
}

fn accept_all(listener: &TcpListener, known: &Arc<Known>, events: &SyncSender<LinkEvent>, shared: &Arc<Shared>) {
    let mut id = 0;
    while shared.phase() != Phase::Stopping {
        let Ok((stream, peer)) = listener.accept() else {
            std::thread::sleep(LOOK);
            continue;
        };
        id += 1;
        let (known, events, shared) = (Arc::clone(known), events.clone(), Arc::clone(shared));
        let welcome = move || match greet(stream, &known) {
            Ok(link) => {
                link::run(link, id, &events, &shared);
            }
            Err(error) => tracing::warn!(%peer, %error, "a decode worker was refused"),
        };
        if let Err(error) = std::thread::Builder::new().name("sluicegate-link".into()).spawn(welcome) {
            tracing::error!(%error, "no thread for a decode worker");
        }
    }
}

fn greet(stream: TcpStream, known: &Known) -> io::Result<Secured> {
    stream.set_nonblocking(false)?;
    link::prepare(&stream)?;
    let mut link = Secured::accept(stream, &known.identity)?;
    hello::exchange(&mut link, End::Source, &known.secret, &known.layout)?;
    Ok(link)
}
