//! The decode side's way to its prefill workers: connects, and connects again.

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
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(300));

/// What every link of a decode worker needs.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    secret: Secret,
    layout: [u8; 32],
    shared: Arc<Shared>,
}

/// A link that is kept up. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) events: Receiver<LinkEvent>,
}

impl Links {
    pub(crate) fn new(secret: Secret, model: &ModelSpec, shared: &Arc<Shared>) -> Self {
        Self { secret, layout: hello::layout(model), shared: Arc::clone(shared) }
    }

    /// Whether links to this address are allowed.
    pub(crate) fn check(address: SocketAddr) -> io::Result<()> {
        link::require_loopback(address)
    }

    /// Keeps a link to `address` up, on a thread of its own, until the engine stops or the dialer is dropped.
    pub(crate) fn dial(&self, address: SocketAddr) -> io::Result<Dialer> {
        Self::check(address)?;
        let (send, events) = sync_channel(EVENTS);
        let own = self.clone();
        let keep_up = move || {
            let (mut id, mut pause) = (0, PAUSES.0);
            while own.shared.phase() != Phase::Stopping {
                let heard = match own.connect(address) {
                    Ok(stream) => {
                        id += 1;
                        pause = PAUSES.0;
                        link::run(stream, id, &send, &own.shared)
                    }
                    Err(error) => {
                        tracing::warn!(%address, %error, "no link to the prefill worker");
                        let heard = send.send(LinkEvent::Refused(error.to_string())).is_ok();
                        own.shared.wake();
                        heard
                    }
                };
                if !heard {
                    return;
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
            }
        };
        std::thread::Builder::new().name("sluicegate-dial".into()).spawn(keep_up)?;
        Ok(Dialer { events })
    }

    fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&address, link::SILENCE)?;
        link::prepare(&stream)?;
        hello::exchange(&mut &stream, End::Sink, &self.secret, &self.layout)?;
        Ok(stream)
    }
}
