//! Plays recorded streams as if an engine produced them. The file format is described in `docs/replay.md`.

mod play;
mod recording;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_core::future::BoxFuture;

use self::play::Player;
pub use self::recording::{Recordings, RecordingsError};
use super::{Job, Started, Upstream};
use crate::chat::Role;
use crate::error::{Error, Kind};

/// What a replay upstream has done. `live` is `started - finished - aborted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayStats {
    /// Streams begun.
    pub started: u64,
    /// Streams played to the recording's end, whatever that was.
    pub finished: u64,
    /// Streams dropped before that.
    pub aborted: u64,
}

impl ReplayStats {
    /// Streams that are playing.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.started.saturating_sub(self.finished + self.aborted)
    }
}

#[derive(Debug, Default)]
struct Counters {
    started: AtomicU64,
    finished: AtomicU64,
    aborted: AtomicU64,
}

/// Plays a file of recordings.
#[derive(Debug)]
pub struct Replay {
    name: String,
    recordings: Recordings,
    /// Divides every delay; 0 plays without delays.
    speed: f64,
    /// One turn counter for each marker's recordings, and one for those without.
    turns: Vec<AtomicUsize>,
    counters: Arc<Counters>,
}

impl Replay {
    /// An upstream for recordings. `speed` divides every recorded delay; 0 plays without delays.
    #[must_use]
    pub fn new(name: impl Into<String>, recordings: Recordings, speed: f64) -> Self {
        let turns = recordings.groups().map(|_| AtomicUsize::new(0)).collect();
        Self { name: name.into(), recordings, speed, turns, counters: Arc::default() }
    }

    /// What it has done.
    #[must_use]
    pub fn stats(&self) -> ReplayStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Ends first: a stream that begins in between must not look like one that ended before it began.
        let (finished, aborted) = (read(&self.counters.finished), read(&self.counters.aborted));
        ReplayStats { started: read(&self.counters.started), finished, aborted }
    }

    fn start(&self, job: &Job) -> Result<Started, Error> {
        let last_user = job.request.messages.iter().rev().find(|message| message.role == Role::User);
        let text = last_user.map(|message| message.content.join("\n")).unwrap_or_default();
        let Some((group, members)) = self.recordings.select(&text) else {
            let message = format!(
                "replay {}: no recording's \"match\" occurs in the last user message, and every recording has one",
                self.name
            );
            return Err(Error::new(Kind::BadRequest, message).param("messages"));
        };
        let turn = self.turns[group].fetch_add(1, Ordering::Relaxed);
        let recording = Arc::clone(self.recordings.get(members[turn % members.len()]));
        let prompt_tail = recording.prompt_tail.clone();
        let player = Player::new(recording, self.speed, Arc::clone(&self.counters));
        Ok(Started { pieces: Box::pin(player), prompt_tail })
    }
}

impl Upstream for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn takes_tokens(&self) -> bool {
        false
    }

    fn submit(&self, job: Job) -> BoxFuture<'_, Result<Started, Error>> {
        Box::pin(std::future::ready(self.start(&job)))
    }
}
