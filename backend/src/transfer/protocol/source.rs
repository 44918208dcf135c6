//! The prefill side of a link: what it owes to each live key.

use std::collections::{BTreeMap, VecDeque};

use super::{Guarantee, Guarantees, Key, ToSink, ToSource};

/// What the owner of a [`Source`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceEffect {
    /// Queue the sequence of this key.
    Begin(Key),
    /// Drop it, wherever it is, and free what it holds.
    Cancel(Key),
    /// Its pages were received: free them.
    Release(Key),
    /// Send this.
    Send(Key, ToSink),
}

/// How far a sequence is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Sending {
    granted: bool,
    /// Pages computed and not sent.
    ready: VecDeque<u32>,
    /// All pages are computed, and the first token is drawn.
    complete: bool,
    /// `Finish` was sent.
    finished: bool,
}

/// All transfers that one link's prefill side takes part in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    live: BTreeMap<Key, Sending>,
    newest: u64,
    guarantees: Guarantees,
}

impl Source {
    #[cfg(test)]
    pub(crate) fn with(guarantees: Guarantees) -> Self {
        Self { guarantees, ..Self::default() }
    }

    /// Live transfers.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// A message from the sink.
    pub(crate) fn receive(&mut self, key: Key, message: ToSource) -> Vec<SourceEffect> {
        if message == ToSource::Start {
            return self.start(key);
        }
        let Some(sending) = self.live.get_mut(&key) else {
            if message == ToSource::Abort {
                // It may have overtaken its `Start`, which must not begin anything when it comes.
                self.newest = self.newest.max(key.generation);
            }
            return self.refuse(key);
        };
        match message {
            ToSource::Start => Vec::new(),
            ToSource::Grant => {
                sending.granted = true;
                self.pump(key)
            }
            // An early `Ack` is a peer's mistake; the pages are its to lose.
            ToSource::Ack => {
                self.live.remove(&key);
                vec![SourceEffect::Release(key)]
            }
            ToSource::Abort => {
                self.live.remove(&key);
                vec![SourceEffect::Cancel(key), SourceEffect::Send(key, ToSink::Closed)]
            }
        }
    }

    /// Answers a message that acts on nothing, so that the sink does not wait.
    fn refuse(&self, key: Key) -> Vec<SourceEffect> {
        let answer = self.guarantees.hold(Guarantee::AnswerUnknown);
        answer.then_some(SourceEffect::Send(key, ToSink::Closed)).into_iter().collect()
    }

    fn start(&mut self, key: Key) -> Vec<SourceEffect> {
        if self.live.contains_key(&key) {
            return Vec::new();
        }
        if key.generation <= self.newest && self.guarantees.hold(Guarantee::NoStaleStart) {
            return self.refuse(key);
        }
        self.newest = self.newest.max(key.generation);
        self.live.insert(key, Sending::default());
        vec![SourceEffect::Begin(key)]
    }

    /// The sequence left the queue.
    pub(crate) fn started(&mut self, key: Key) -> Vec<SourceEffect> {
        if self.live.contains_key(&key) { vec![SourceEffect::Send(key, ToSink::Started)] } else { Vec::new() }
    }

    /// These pages are computed, in whatever order, each said once; with `complete` they are the last, and the first token is drawn.
    pub(crate) fn ready(
        &mut self,
        key: Key,
        pages: impl IntoIterator<Item = u32>,
        complete: bool,
    ) -> Vec<SourceEffect> {
        let Some(sending) = self.live.get_mut(&key) else { return Vec::new() };
        sending.ready.extend(pages);
        sending.complete |= complete;
        self.pump(key)
    }

    /// The sequence failed here.
    pub(crate) fn fail(&mut self, key: Key) -> Vec<SourceEffect> {
        let live = self.live.remove(&key).is_some();
        live.then_some(SourceEffect::Send(key, ToSink::Closed)).into_iter().collect()
    }

    /// The link is gone: everything that was done for it is dropped.
    pub(crate) fn link_down(&mut self) -> Vec<SourceEffect> {
        if !self.guarantees.hold(Guarantee::EndWithLink) {
            return Vec::new();
        }
        std::mem::take(&mut self.live).into_keys().map(SourceEffect::Cancel).collect()
    }

    /// Sends what is granted and computed.
    fn pump(&mut self, key: Key) -> Vec<SourceEffect> {
        let mut out = Vec::new();
        let early = !self.guarantees.hold(Guarantee::GrantBeforePages);
        let Some(s) = self.live.get_mut(&key).filter(|s| s.granted || early) else { return out };
        out.extend(s.ready.drain(..).map(|page| SourceEffect::Send(key, ToSink::Page(page))));
        if s.complete && !s.finished {
            s.finished = true;
            out.push(SourceEffect::Send(key, ToSink::Finish));
        }
        out
    }
}
