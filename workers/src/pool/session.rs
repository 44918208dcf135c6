//! A session at the gateway: which requests the worker has, and what it last said of itself.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sluicegate_backend::api::{Event, GenerateRequest, Pairing};
use sluicegate_backend::engine::Stats;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::PoolConfig;
use super::attempt::Attempt;
use crate::wire::proto::to_worker::What;
use crate::wire::proto::{Credit, FromWorker, ToWorker};
use crate::wire::{CREDIT, Heard, Role, heard, submit};

/// What a worker said of itself at hello.
#[derive(Clone, Debug)]
pub(super) struct Info {
    pub(super) role: Role,
    pub(super) layout: Vec<u8>,
    pub(super) transfer: Option<SocketAddr>,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) address: SocketAddr,
    pub(super) info: Info,
    to_worker: mpsc::Sender<ToWorker>,
    requests: Mutex<HashMap<u64, mpsc::Sender<Heard>>>,
    next: AtomicU64,
    stats: Mutex<Stats>,
    /// Sequences that this gateway has paired with it: for a prefill worker, those that wait for their first token.
    load: AtomicU64,
    /// It finishes what it has and takes nothing new.
    drains: AtomicBool,
    why: OnceLock<String>,
    over: CancellationToken,
}

/// Counts a request as a worker's load until it is dropped.
#[derive(Debug)]
pub(super) struct Load(Arc<Session>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    pub(super) fn new(address: SocketAddr, info: Info, to_worker: mpsc::Sender<ToWorker>) -> Self {
        Self {
            address,
            info,
            to_worker,
            requests: Mutex::default(),
            next: AtomicU64::new(1),
            stats: Mutex::default(),
            load: AtomicU64::new(0),
            drains: AtomicBool::new(false),
            why: OnceLock::new(),
            over: CancellationToken::new(),
        }
    }

    /// Hands a request to the worker.
    pub(super) fn submit(self: &Arc<Self>, request: &GenerateRequest, pairing: &Pairing) -> Attempt {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // One more than the worker may send, for what comes without credit.
        let (send, events) = mpsc::channel(CREDIT as usize + 1);
        {
            // Under the lock, so that a session that ends meanwhile ends this one too.
            let mut requests = locked(&self.requests);
            if !self.is_over() {
                requests.insert(number, send);
            }
        }
        self.send(What::Submit(submit(number, request, pairing)));
        Attempt::new(Arc::clone(self), number, events)
    }

    /// The request's client has left, or its attempt is given up.
    pub(super) fn abort(&self, number: u64) {
        if locked(&self.requests).remove(&number).is_some() {
            self.send(What::Abort(number));
        }
    }

    pub(super) fn credit(&self, number: u64, events: u32) {
        self.send(What::Credit(Credit { request: number, events }));
    }

    fn send(&self, what: What) {
        if self.to_worker.try_send(ToWorker { what: Some(what) }).is_err() {
            self.end("it takes no messages any more");
        }
    }

    /// Takes a message from the worker.
    ///
    /// # Errors
    /// Why the worker cannot be used any more.
    pub(super) fn take(&self, message: FromWorker, config: &PoolConfig) -> Result<(), String> {
        for said in message.said {
            self.deliver(said.request, said.event.and_then(heard));
        }
        let Some(status) = message.status else { return Ok(()) };
        if !status.failure.is_empty() {
            return Err(format!("its engine has failed: {}", status.failure));
        }
        let stats: Stats =
            serde_json::from_slice(&status.stats).map_err(|e| format!("its figures are unreadable: {e}"))?;
        *locked(&self.stats) = stats;
        if Duration::from_millis(stats.turn_ms) > config.turn_limit {
            return Err(format!("its engine has been in one turn for {} ms: it is stuck", stats.turn_ms));
        }
        Ok(())
    }

    fn deliver(&self, number: u64, heard: Option<Heard>) {
        let mut requests = locked(&self.requests);
        // Left already; what is on its way is of no use to anyone.
        let Some(request) = requests.get(&number) else { return };
        let last = matches!(heard, Some(Heard::Event(Event::Finished { .. } | Event::Failed(_))));
        let sent = heard.is_some_and(|h| request.try_send(h).is_ok());
        if !sent {
            tracing::error!(worker = %self.address, "a worker sent more events than it may, or one that makes no sense; the request is given up");
            requests.remove(&number);
            drop(requests);
            self.send(What::Abort(number));
        } else if last {
            requests.remove(&number);
        }
    }

    /// Ends the session, the first time with a reason; every request that it has is lost.
    pub(super) fn end(&self, why: &str) {
        let _ = self.why.set(why.to_owned());
        self.over.cancel();
    }

    /// Drops the ends of all requests, so that their attempts see that they are lost.
    pub(super) fn close(&self) {
        let mut requests = locked(&self.requests);
        self.over.cancel();
        requests.clear();
    }

    /// The worker has refused a request because it leaves.
    pub(super) fn drain(&self) {
        self.drains.store(true, Ordering::Relaxed);
    }

    /// Whether it can be given a request.
    pub(super) fn takes_requests(&self) -> bool {
        !self.is_over() && !self.drains.load(Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Returns when the session is over.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Why it is over.
    pub(super) fn why(&self) -> String {
        self.why.get().cloned().unwrap_or_else(|| "its session ended".into())
    }

    pub(super) fn stats(&self) -> Stats {
        *locked(&self.stats)
    }

    pub(super) fn running(&self) -> usize {
        locked(&self.requests).len()
    }

    pub(super) fn load(&self) -> u64 {
        self.load.load(Ordering::Relaxed)
    }

    pub(super) fn loaded(self: &Arc<Self>) -> Load {
        self.load.fetch_add(1, Ordering::Relaxed);
        Load(Arc::clone(self))
    }
}
