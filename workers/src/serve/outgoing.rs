//! A session's stream to its gateway: what requests say, and a heartbeat among it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tonic::Status;

use super::Served;
use crate::wire::proto;

/// How often a worker says how it is. A gateway gives it up after a few times that.
const HEARTBEAT: Duration = Duration::from_millis(200);
/// Events in one message.
const EVENTS: usize = 256;

/// See the file's head. Ends when the session does.
#[derive(Debug)]
pub(super) struct Outgoing {
    said: mpsc::Receiver<proto::Said>,
    heartbeat: Interval,
    served: Arc<Served>,
}

impl Outgoing {
    pub(super) fn new(said: mpsc::Receiver<proto::Said>, served: Arc<Served>) -> Self {
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { said, heartbeat, served }
    }

    fn status(&self) -> proto::Status {
        proto::Status {
            // The type always serializes.
            stats: serde_json::to_vec(&self.served.engine.stats()).unwrap_or_default(),
            failure: self.served.engine.failure().map(|e| e.to_string()).unwrap_or_default(),
        }
    }
}

impl Stream for Outgoing {
    type Item = Result<proto::FromWorker, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let status = this.heartbeat.poll_tick(cx).is_ready().then(|| this.status());
        let mut said = Vec::new();
        match this.said.poll_recv_many(cx, &mut said, EVENTS) {
            Poll::Ready(0) => Poll::Ready(None),
            Poll::Pending if status.is_none() => Poll::Pending,
            Poll::Ready(_) | Poll::Pending => Poll::Ready(Some(Ok(proto::FromWorker { said, status }))),
        }
    }
}
