//! One request at one worker. Dropping it before its end leaves it, and the worker frees what it holds.

use std::sync::Arc;

use sluicegate_backend::api::Event;
use tokio::sync::mpsc;

use super::session::Session;
use crate::wire::{CREDIT, Heard};

/// See the file's head.
#[derive(Debug)]
pub(super) struct Attempt {
    session: Arc<Session>,
    number: u64,
    events: mpsc::Receiver<Heard>,
    /// Events taken since the worker was last told.
    taken: u32,
}

impl Attempt {
    pub(super) fn new(session: Arc<Session>, number: u64, events: mpsc::Receiver<Heard>) -> Self {
        Self { session, number, events, taken: 0 }
    }

    /// What the worker says next; none when the session is over, or the worker broke its word. Safe to cancel.
    pub(super) async fn recv(&mut self) -> Option<Heard> {
        let heard = self.events.recv().await;
        if matches!(heard, Some(Heard::Event(ref e)) if !matches!(e, Event::Finished { .. } | Event::Failed(_))) {
            self.taken += 1;
            if self.taken >= CREDIT / 2 {
                self.session.credit(self.number, self.taken);
                self.taken = 0;
            }
        }
        heard
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.session.abort(self.number);
    }
}
