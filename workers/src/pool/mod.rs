//! The workers that a gateway knows, and how a request gets a pair of them.

mod attempt;
mod choose;
mod listen;
mod meet;
mod pooled;
mod room;
mod session;
mod shepherd;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_backend::api::{EngineError, GenerateRequest};
use sluicegate_backend::engine::{Identity, Secret};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

pub use meet::Expected;
pub use pooled::Pooled;
use room::Rooms;
use shepherd::{Flock, Shepherd};
use worker::Member;
pub use worker::{Standing, WorkerStatus};

/// Events that a client may lag behind before its worker is told to wait.
const LAG: usize = 16;

/// A pool's workers and its patience.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Where they listen. Their roles they say themselves.
    pub workers: Vec<SocketAddr>,
    /// What they know too.
    pub secret: Secret,
    /// The model that they must serve; none: whatever they do, if it is the same.
    pub expected: Option<Expected>,
    /// A worker that has said nothing for this long is lost.
    pub silence: Duration,
    /// A worker whose engine has been in one turn for this long is stuck, and lost.
    pub turn_limit: Duration,
    /// How long a request waits for a worker to come up.
    pub patience: Duration,
    /// How often a request is begun, at most.
    pub attempts: u32,
}

impl PoolConfig {
    /// These workers, with the usual patience.
    #[must_use]
    pub fn new(workers: Vec<SocketAddr>, secret: Secret) -> Self {
        Self {
            workers,
            secret,
            expected: None,
            silence: Duration::from_secs(2),
            turn_limit: Duration::from_secs(60),
            patience: Duration::from_secs(2),
            attempts: 6,
        }
    }
}

/// A pool. Clones share it; the last one dropped ends its sessions, and with them every request.
#[derive(Clone, Debug)]
pub struct WorkerPool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: Arc<PoolConfig>,
    members: Arc<[Arc<Member>]>,
    changed: Arc<watch::Sender<()>>,
    rooms: Rooms,
    tasks: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// Begins to keep sessions with the workers, on the present Tokio runtime. They need not be up.
    ///
    /// # Errors
    /// There is no worker, or TLS can't be set up.
    pub fn start(config: PoolConfig) -> Result<Self, String> {
        if config.workers.is_empty() {
            return Err("a pool needs at least one worker".into());
        }
        let identity = Identity::of(&config.secret).map_err(|e| e.to_string())?;
        let config = Arc::new(config);
        let changed = Arc::new(watch::Sender::new(()));
        let member = |address: &SocketAddr| Arc::new(Member::new(*address, Arc::clone(&changed)));
        let members: Arc<[Arc<Member>]> = config.workers.iter().map(member).collect();
        let keep = |member: &Arc<Member>| {
            tokio::spawn(listen::keep_up(Arc::clone(member), Arc::clone(&config), identity.clone()))
        };
        let tasks = members.iter().map(keep).collect();
        Ok(Self(Arc::new(Inner { config, members, changed, rooms: Rooms::default(), tasks })))
    }

    /// Starts a generation. Returns when a worker's engine has it, or nobody will.
    ///
    /// # Errors
    /// The request is invalid or refused, or no pair of workers came up in time.
    pub async fn submit(&self, request: GenerateRequest) -> Result<Pooled, EngineError> {
        if request.grammar.as_ref().is_some_and(|grammar| grammar.source().is_none()) {
            let why = "this grammar can't be sent to workers: its source is not known";
            return Err(EngineError::Invalid(why.into()));
        }
        let (events, pooled) = mpsc::channel(LAG);
        let (accept, accepted) = oneshot::channel();
        let flock = Flock {
            config: Arc::clone(&self.0.config),
            members: Arc::clone(&self.0.members),
            changes: self.0.changed.subscribe(),
            rooms: self.0.rooms.clone(),
        };
        let shepherd = Shepherd::new(request, flock);
        let task = tokio::spawn(shepherd.run(events, accept));
        let pooled = Pooled::new(pooled, task);
        match accepted.await {
            Ok(Ok(())) => Ok(pooled),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(EngineError::ShuttingDown),
        }
    }

    /// How each worker is.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.0.members.iter().map(|m| m.status()).collect()
    }

    /// Transfers that have a room now.
    #[must_use]
    pub fn rooms(&self) -> usize {
        self.0.rooms.len()
    }

    /// Why no request can be served now, if none can.
    #[must_use]
    pub fn lack(&self) -> Option<String> {
        choose::choose(&self.0.members, &[]).err()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
