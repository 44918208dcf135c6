//! A session at the worker: takes requests, aborts and credits, and ends everything that it began when it ends.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_backend::api::{EngineError, Event};
use sluicegate_backend::engine::Generation;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::Served;
use crate::wire::proto::to_worker::What;
use crate::wire::proto::{Said, Submit, ToWorker};
use crate::wire::{CREDIT, accepted, said, submitted};

/// A request that runs here.
struct Running {
    task: AbortHandle,
    credit: Arc<Semaphore>,
}

struct Session {
    served: Arc<Served>,
    say: mpsc::Sender<Said>,
    running: HashMap<u64, Running>,
    /// Each holds its generation: dropping the set aborts all of them.
    tasks: JoinSet<u64>,
}

/// Runs until the gateway leaves or the worker stops.
pub(super) async fn run(
    mut inbound: Streaming<ToWorker>,
    served: Arc<Served>,
    say: mpsc::Sender<Said>,
    stop: CancellationToken,
) {
    let mut session = Session { served, say, running: HashMap::new(), tasks: JoinSet::new() };
    let why = loop {
        tokio::select! {
            message = inbound.message() => match message {
                Ok(Some(ToWorker { what: Some(what) })) => session.take(what),
                Ok(Some(ToWorker { what: None })) => tracing::warn!("a gateway sent a message that this release does not know"),
                Ok(None) => break "it said goodbye".to_owned(),
                Err(status) => break status.message().to_owned(),
            },
            Some(ended) = session.tasks.join_next() => {
                if let Ok(request) = ended {
                    session.running.remove(&request);
                }
            }
            // The gateway reads no more.
            () = session.say.closed() => break "its connection is gone".to_owned(),
            () = stop.cancelled() => break "this worker stops".to_owned(),
        }
    };
    tracing::info!(%why, requests = session.running.len(), "a gateway's session ended, and what it asked for with it");
}

impl Session {
    fn take(&mut self, what: What) {
        match what {
            What::Submit(submit) => self.submit(submit),
            // One that is over needs none.
            What::Abort(request) => {
                if let Some(running) = self.running.remove(&request) {
                    running.task.abort();
                }
            }
            What::Credit(credit) => {
                if let Some(running) = self.running.get(&credit.request) {
                    // More than can be owed would only help the gateway to drown itself.
                    running.credit.add_permits(credit.events.min(CREDIT) as usize);
                }
            }
        }
    }

    fn submit(&mut self, submit: Submit) {
        let number = submit.request;
        let say = self.say.clone();
        if submit.grammar.is_some() {
            let credit = Arc::new(Semaphore::new(CREDIT as usize));
            let task = self.tasks.spawn(guided(submit, Arc::clone(&self.served), Arc::clone(&credit), say));
            self.running.insert(number, Running { task, credit });
            return;
        }
        let generation = submitted(submit).and_then(|asked| self.served.submit(asked));
        let generation = match generation {
            Ok(generation) => generation,
            Err(error) => {
                self.tasks.spawn(async move {
                    let _ = say.send(said(number, Event::Failed(error))).await;
                    number
                });
                return;
            }
        };
        let credit = Arc::new(Semaphore::new(CREDIT as usize));
        let task = self.tasks.spawn(forward(number, generation, Arc::clone(&credit), say));
        self.running.insert(number, Running { task, credit });
    }
}

/// A request whose grammar is compiled first, beside the session's other work.
async fn guided(submit: Submit, served: Arc<Served>, credit: Arc<Semaphore>, say: mpsc::Sender<Said>) -> u64 {
    let number = submit.request;
    let submitted = move || submitted(submit).and_then(|asked| served.submit(asked));
    let panicked = |_| Err(EngineError::Grammar("the compiler of grammars panicked; see the log".into()));
    match tokio::task::spawn_blocking(submitted).await.unwrap_or_else(panicked) {
        Ok(generation) => forward(number, generation, credit, say).await,
        Err(error) => {
            let _ = say.send(said(number, Event::Failed(error))).await;
            number
        }
    }
}

async fn forward(number: u64, mut generation: Generation, credit: Arc<Semaphore>, say: mpsc::Sender<Said>) -> u64 {
    if say.send(accepted(number)).await.is_err() {
        return number;
    }
    while let Some(event) = generation.recv().await {
        let Ok(permit) = credit.acquire().await else { break };
        permit.forget();
        if say.send(said(number, event)).await.is_err() {
            break;
        }
    }
    number
}
