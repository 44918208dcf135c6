//! Sees one request to its end: chooses workers, passes events on, and goes on elsewhere when a worker is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_backend::api::{EngineError, Event, FinishReason, GenerateRequest, Pairing, Stage, Usage};
use tokio::sync::{mpsc, oneshot, watch};

use super::PoolConfig;
use super::choose::{Choice, choose};
use super::room::Rooms;
use super::session::Session;
use super::worker::Member;
use crate::wire::Heard;

/// How long after its deadline a worker may take to end a request itself.
const GRACE: Duration = Duration::from_millis(250);
/// Pause before the second attempt; doubles.
const PAUSE: Duration = Duration::from_millis(15);

/// See the file's head.
pub(super) struct Shepherd {
    request: GenerateRequest,
    flock: Flock,
    /// What the client has.
    output: Vec<u32>,
    stage: Option<Stage>,
    told_cached: bool,
    /// Workers that lost this request.
    avoid: Vec<SocketAddr>,
}

/// The workers that it may choose from.
pub(super) struct Flock {
    pub(super) config: Arc<PoolConfig>,
    pub(super) members: Arc<[Arc<Member>]>,
    pub(super) changes: watch::Receiver<()>,
    pub(super) rooms: Rooms,
}

/// How an attempt ended.
enum End {
    /// The client has been told everything.
    Told,
    /// The client left.
    Left,
    /// The workers did not bring it to an end.
    Lost { error: EngineError, blame: Vec<SocketAddr> },
    /// It makes no sense to try again.
    Refused(EngineError),
    /// The deadline passed.
    Late,
}

/// Tells the caller of `submit` once whether it was accepted.
type Accept = Option<oneshot::Sender<Result<(), EngineError>>>;

impl Shepherd {
    pub(super) fn new(request: GenerateRequest, flock: Flock) -> Self {
        Self { request, flock, output: Vec::new(), stage: None, told_cached: false, avoid: Vec::new() }
    }

    /// Runs until the client has been told the end, or left.
    pub(super) async fn run(mut self, client: mpsc::Sender<Event>, accept: oneshot::Sender<Result<(), EngineError>>) {
        let mut accept = Some(accept);
        let mut attempts = 0;
        let end = loop {
            attempts += 1;
            let end = match self.choose().await {
                Ok(choice) => self.attempt(&choice, &client, &mut accept).await,
                Err(end) => break end,
            };
            let End::Lost { error, blame } = end else { break end };
            tracing::warn!(
                id = %self.request.id, %error, ?blame, attempts, output = self.output.len(),
                "a request lost its worker"
            );
            if let Some(done) = self.complete() {
                let _ = client.send(done).await;
                break End::Told;
            }
            if attempts >= self.flock.config.attempts {
                break End::Refused(error);
            }
            self.avoid = blame;
            // Whoever lost it may be about to be noticed, or to come back.
            let pause = PAUSE * 2_u32.pow(attempts.min(5) - 1);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = client.closed() => break End::Left,
            }
        };
        let last = match end {
            End::Told | End::Left => return,
            End::Late => self.finished(FinishReason::Deadline),
            End::Lost { error, .. } | End::Refused(error) => match accept.take() {
                Some(accept) => {
                    let _ = accept.send(Err(error));
                    return;
                }
                None => Event::Failed(error),
            },
        };
        if let Some(accept) = accept {
            let _ = accept.send(Ok(()));
        }
        let _ = client.send(last).await;
    }

    /// Workers for the next attempt, at once or within the pool's patience.
    async fn choose(&mut self) -> Result<Choice, End> {
        let patience = Instant::now() + self.flock.config.patience;
        let until = self.request.deadline.map_or(patience, |deadline| deadline.min(patience));
        loop {
            self.flock.changes.mark_unchanged();
            let why = match choose(&self.flock.members, &self.avoid) {
                Ok(choice) => return Ok(choice),
                Err(why) => why,
            };
            match tokio::time::timeout_at(until.into(), self.flock.changes.changed()).await {
                Ok(Ok(())) => {}
                // The pool is gone.
                Ok(Err(_)) => return Err(End::Refused(EngineError::ShuttingDown)),
                Err(_) if self.request.deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    return Err(End::Late);
                }
                Err(_) => return Err(End::Refused(EngineError::Unavailable(why))),
            }
        }
    }

    async fn attempt(&mut self, choice: &Choice, client: &mpsc::Sender<Event>, accept: &mut Accept) -> End {
        let room = match self.flock.rooms.mint() {
            Ok(room) => room,
            Err(why) => return End::Refused(EngineError::Unavailable(why)),
        };
        let prefill = choice.prefill.as_ref();
        let pairing = Pairing {
            room: if prefill.is_some() { room.number() } else { 0 },
            prefill: prefill.and_then(|p| p.info.transfer),
            output: self.output.clone(),
        };
        tracing::debug!(
            id = %self.request.id, room = room.number(), decode = %choice.decode.address,
            prefill = ?prefill.map(|p| p.address), "a request is handed to its workers"
        );
        let _decode_load = choice.decode.loaded();
        let mut prefill_load = prefill.map(Session::loaded);
        let mut attempt = choice.decode.submit(&self.request, &pairing);
        loop {
            let heard = tokio::select! {
                heard = attempt.recv() => heard,
                // Before the first token the prompt's worker matters as much.
                () = over(prefill), if prefill_load.is_some() => return lost(prefill),
                () = client.closed() => return End::Left,
                () = self.late() => return self.overrun(choice),
            };
            match heard {
                None => return lost(Some(&choice.decode)),
                Some(Heard::Accepted) => {
                    if let Some(accept) = accept.take() {
                        let _ = accept.send(Ok(()));
                    }
                }
                Some(Heard::Event(event)) => {
                    if matches!(event, Event::Token { .. }) {
                        prefill_load = None;
                    }
                    if let Some(end) = self.pass(event, choice, client).await {
                        return end;
                    }
                }
            }
        }
    }

    /// Passes an event on; some end the attempt.
    async fn pass(&mut self, event: Event, choice: &Choice, client: &mpsc::Sender<Event>) -> Option<End> {
        let last = matches!(event, Event::Finished { .. });
        match &event {
            // Told once each, however often the request begins again.
            Event::Stage(stage) if Some(*stage) <= self.stage => return None,
            Event::Stage(stage) => self.stage = Some(*stage),
            Event::Cached(_) if std::mem::replace(&mut self.told_cached, true) => return None,
            Event::Cached(_) => {}
            Event::Token { id, .. } => self.output.push(*id),
            Event::Finished { .. } => {}
            Event::Failed(error) => return Some(judge(error.clone(), choice)),
        }
        // A client that reads slowly holds its worker back by not giving credit, until its deadline.
        let sent = tokio::select! {
            sent = client.send(event) => sent,
            () = self.late() => return Some(End::Late),
        };
        match sent {
            Err(_) => Some(End::Left),
            Ok(()) => last.then_some(End::Told),
        }
    }

    /// Returns when the deadline and the worker's grace are over.
    async fn late(&self) {
        match self.request.deadline {
            Some(deadline) => tokio::time::sleep_until((deadline + GRACE).into()).await,
            None => std::future::pending().await,
        }
    }

    fn overrun(&self, choice: &Choice) -> End {
        tracing::warn!(
            id = %self.request.id, worker = %choice.decode.address,
            "a decode worker did not end a request at its deadline; the gateway does"
        );
        End::Late
    }

    /// The end, if everything but its message has come.
    fn complete(&self) -> Option<Event> {
        let is_full = self.output.len() >= self.request.max_tokens as usize;
        is_full.then(|| self.finished(FinishReason::Length))
    }

    fn finished(&self, reason: FinishReason) -> Event {
        let usage = Usage {
            prompt_tokens: self.request.prompt.len() as u32,
            cached_tokens: 0,
            completion_tokens: self.output.len() as u32,
        };
        Event::Finished { reason, usage }
    }
}

async fn over(session: Option<&Arc<Session>>) {
    match session {
        Some(session) => session.over().await,
        None => std::future::pending().await,
    }
}

fn lost(session: Option<&Arc<Session>>) -> End {
    let Some(session) = session else { return End::Refused(EngineError::ShuttingDown) };
    let why = format!("the {} worker {} was lost: {}", session.info.role.name(), session.address, session.why());
    End::Lost { error: EngineError::Worker(why), blame: vec![session.address] }
}

/// Whether another pair may do better.
fn judge(error: EngineError, choice: &Choice) -> End {
    match error {
        EngineError::Worker(_) | EngineError::ShuttingDown | EngineError::Unavailable(_) => {
            let prefill = choice.prefill.iter().map(|p| p.address);
            let blame = match &error {
                // It leaves; its prefill worker may be well.
                EngineError::ShuttingDown => {
                    choice.decode.drain();
                    vec![choice.decode.address]
                }
                _ => prefill.chain([choice.decode.address]).collect(),
            };
            End::Lost { error, blame }
        }
        refused => End::Refused(refused),
    }
}
