//! A prefill worker that serves decode workers in other processes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Config, Phase, Shared, StartError, Stats, inspect_one, worker};
use crate::api::EngineError;
use crate::exec::Executor;
use crate::transfer::remote::Secret;

/// A running prefill worker. Dropping it ends its links; decode workers try again until one is back.
#[derive(Debug)]
pub struct PrefillServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl PrefillServer {
    /// Starts the worker and opens its door. Port 0 is any free port.
    ///
    /// # Errors
    /// A setting that cannot work, an executor without room, or no door.
    pub fn start(
        executor: Box<dyn Executor>,
        config: &Config,
        address: SocketAddr,
        secret: Secret,
    ) -> Result<Self, StartError> {
        config.check()?;
        let limits = inspect_one(&*executor, config)?;
        let served = worker::serve(executor, config, limits, (address, secret))?;
        Ok(Self { address: served.address, shared: served.shared, threads: Mutex::new(served.threads) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it is doing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Why it can serve nothing more, if its device failed.
    #[must_use]
    pub fn failure(&self) -> Option<EngineError> {
        self.shared.lost()
    }

    /// Lets the running sequences finish for at most `grace`, then ends. Says whether all finished.
    pub fn shutdown(&self, grace: Duration) -> bool {
        let drained = self.shared.drain(grace);
        super::join(std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)));
        drained
    }
}

impl Drop for PrefillServer {
    fn drop(&mut self) {
        self.shared.advance(Phase::Stopping);
    }
}
