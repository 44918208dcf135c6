//! The decode side's way to its prefill workers: connects, and connects again.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use super::hello::{self, End, Secret};
use super::link::{self, LinkEvent};
use super::tls::{Identity, Secured};
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
    identity: Identity,
    layout: [u8; 32],
    shared: Arc<Shared>,
}

/// A link that is kept up. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) events: Receiver<LinkEvent>,
}

impl Links {
    pub(crate) fn new(secret: Secret, model: &ModelSpec, shared: &Arc<Shared>) -> io::Result<Self> {
        let identity = Identity::of(&secret)?;
        Ok(Self { secret, identity, layout: hello::layout(model), shared: Arc::clone(shared) })
    }

    /// Keeps a link to `address` up, on a thread of its own, until the engine stops or the dialer is dropped.
    pub(crate) fn dial(&self, address: SocketAddr) -> io::Result<Dialer> {
        let (send, events) = sync_channel(EVENTS);
        let own = self.clone();
        let keep_up = move || {
            let (mut id, mut pause) = (0, PAUSES.0);
            while own.shared.phase() != Phase::Stopping {
                let heard = match own.connect(address) {
                    Ok(link) => {
                        id += 1;
                        pause = PAUSES.0;
                        link::run(link, id, &send, &own.shared)
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

    fn connect(&self, address: SocketAddr) -> io::Result<Secured> {
        let stream = TcpStream::connect_timeout(&address, link::SILENCE)?;
        link::prepare(&stream)?;
        let mut link = Secured::connect(stream, &self.identity)?;
        hello::exchange(&mut link, End::Sink, &self.secret, &self.layout)?;
        Ok(link)
    }
}
