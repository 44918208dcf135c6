//! One worker as the pool sees it: up with a session, or down for a reason.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sluicegate_backend::engine::Stats;
use tokio::sync::watch;

use super::session::Session;
use crate::wire::Role;

/// Whether a worker can be used.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It says that it lives, and its engine moves.
    Up {
        /// What it does.
        role: Role,
        /// Requests of this gateway that it has.
        running: usize,
        /// Its engine's last figures.
        stats: Box<Stats>,
    },
    /// It can't be used.
    Down {
        /// Why, and whose fault that is.
        why: String,
        /// Since when.
        lasted: Duration,
    },
}

/// How a worker is.
#[derive(Clone, Debug)]
pub struct WorkerStatus {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it can be used.
    pub standing: Standing,
    /// Sessions that were made with it: one, and one more for each time that it was lost.
    pub sessions_total: u64,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Up(Arc<Session>),
    Down { why: Arc<str>, since: Instant },
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) address: SocketAddr,
    state: Mutex<State>,
    /// Told of every change of any worker of the pool.
    changed: Arc<watch::Sender<()>>,
    sessions: AtomicU64,
}

impl Member {
    pub(super) fn new(address: SocketAddr, changed: Arc<watch::Sender<()>>) -> Self {
        let down = State::Down { why: "not reached yet".into(), since: Instant::now() };
        Self { address, state: Mutex::new(down), changed, sessions: AtomicU64::new(0) }
    }

    pub(super) fn state(&self) -> State {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn up(&self, session: Arc<Session>) {
        tracing::info!(worker = %self.address, role = session.info.role.name(), "a worker is up");
        self.sessions.fetch_add(1, Ordering::Relaxed);
        *self.locked() = State::Up(session);
        self.changed.send_replace(());
    }

    pub(super) fn down(&self, why: &str) {
        let mut state = self.locked();
        let since = match &*state {
            State::Down { why: old, .. } if **old == *why => return,
            State::Down { since, .. } => *since,
            State::Up(_) => Instant::now(),
        };
        tracing::warn!(worker = %self.address, %why, "a worker is down");
        *state = State::Down { why: why.into(), since };
        drop(state);
        self.changed.send_replace(());
    }

    pub(super) fn status(&self) -> WorkerStatus {
        let standing = match self.state() {
            State::Up(session) => {
                Standing::Up { role: session.info.role, running: session.running(), stats: Box::new(session.stats()) }
            }
            State::Down { why, since } => Standing::Down { why: why.to_string(), lasted: since.elapsed() },
        };
        WorkerStatus { address: self.address, standing, sessions_total: self.sessions.load(Ordering::Relaxed) }
    }
}
