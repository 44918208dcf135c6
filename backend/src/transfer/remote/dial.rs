//! The decode side's way to its prefill worker: connects, and connects again.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use super::hello::{self, End, Secret};
use super::link::{self, LinkEvent};
use crate::engine::{Phase, Shared};
use crate::exec::ModelSpec;

/// Events that may wait for the worker.
const EVENTS: usize = 64;
/// Pauses between attempts: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A link that is kept up.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) events: Receiver<LinkEvent>,
}

/// Keeps a link to `address` up, on a thread of its own, until the engine stops.
pub(crate) fn dial(address: SocketAddr, secret: Secret, model: &ModelSpec, shared: &Arc<Shared>) -> io::Result<Dialer> {
    link::require_loopback(address)?;
    let (send, events) = sync_channel(EVENTS);
    let (layout, shared) = (hello::layout(model), Arc::clone(shared));
    let keep_up = move || {
        let (mut id, mut pause) = (0, PAUSES.0);
        while shared.phase() != Phase::Stopping {
            match connect(address, &secret, &layout) {
                Ok(stream) => {
                    id += 1;
                    pause = PAUSES.0;
                    link::run(stream, id, &send, &shared);
                }
                Err(error) => tracing::warn!(%address, %error, "no link to the prefill worker"),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    };
    std::thread::Builder::new().name("sluicegate-dial".into()).spawn(keep_up)?;
    Ok(Dialer { events })
}

fn connect(address: SocketAddr, secret: &Secret, layout: &[u8; 32]) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, link::SILENCE)?;
    link::prepare(&stream)?;
    hello::exchange(&mut &stream, End::Sink, secret, layout)?;
    Ok(stream)
}
