//! The client end of a sequence whose client is at the other end of a link.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::api::{Event, Stage};
use crate::transfer::protocol::Key;

/// What the sequences of a worker's links have to say; a few words for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes(Arc<Mutex<VecDeque<(u64, Key, Note)>>>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// It left the queue.
    Started,
    /// It is lost.
    Failed(String),
}

impl Notes {
    pub(super) fn take(&self) -> VecDeque<(u64, Key, Note)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, link: u64, key: Key, note: Note) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back((link, key, note));
    }
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct RemoteOutlet {
    pub(super) link: u64,
    pub(super) key: Key,
    notes: Notes,
    cancelled: Arc<AtomicBool>,
}

impl RemoteOutlet {
    /// An outlet, and the flag that says that nobody wants the sequence any more.
    pub(super) fn new(link: u64, key: Key, notes: &Notes) -> (Self, Arc<AtomicBool>) {
        let cancelled = Arc::new(AtomicBool::new(false));
        (Self { link, key, notes: notes.clone(), cancelled: Arc::clone(&cancelled) }, cancelled)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn send(&self, event: &Event) {
        let note = match event {
            Event::Stage(Stage::Prefill) => Note::Started,
            Event::Failed(why) => Note::Failed(why.to_string()),
            // The decode side tells its client about everything else.
            Event::Stage(_) | Event::Cached(_) | Event::Token { .. } | Event::Finished { .. } => return,
        };
        self.notes.push(self.link, self.key, note);
    }
}
