//! The decode side of a link: what it waits for from each live key.

use std::collections::{BTreeMap, BTreeSet};

use super::{Guarantee, Guarantees, Key, ToSink, ToSource};

/// What the owner of a [`Sink`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SinkEffect {
    /// Reserve memory for this key, then call [`Sink::granted`].
    WantMemory(Key),
    /// Put the page of the message in hand into the memory of this key.
    Write(Key, u32),
    /// All pages are there: the memory now belongs to a decoding sequence.
    Deliver(Key),
    /// Give the memory of this key back, if there is any.
    Free(Key),
    /// The source will not finish it: try again or fail it. Its memory was given back.
    Lost(Key),
    /// Send this.
    Send(Key, ToSource),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Receiving {
    /// The source knows.
    Asked,
    /// The source computes it; memory is wanted.
    Wanting,
    /// Memory is reserved; these pages are in it.
    Filling { total: u32, got: BTreeSet<u32>, finished: bool },
    /// Aborted here, and not yet closed there.
    Closing,
}

/// All transfers that one link's decode side takes part in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sink {
    live: BTreeMap<Key, Receiving>,
    guarantees: Guarantees,
}

impl Sink {
    #[cfg(test)]
    pub(crate) fn with(guarantees: Guarantees) -> Self {
        Self { guarantees, ..Self::default() }
    }

    /// Live transfers, those being closed included.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Asks for a sequence. The key's generation must be new on this link.
    pub(crate) fn start(&mut self, key: Key) -> Vec<SinkEffect> {
        self.live.insert(key, Receiving::Asked);
        vec![SinkEffect::Send(key, ToSource::Start)]
    }

    /// Memory for `total` pages is reserved.
    pub(crate) fn granted(&mut self, key: Key, total: u32) -> Vec<SinkEffect> {
        match self.live.get_mut(&key) {
            Some(state @ Receiving::Wanting) => {
                *state = Receiving::Filling { total, got: BTreeSet::new(), finished: false };
                vec![SinkEffect::Send(key, ToSource::Grant)]
            }
            _ => vec![SinkEffect::Free(key)],
        }
    }

    /// The client has gone.
    pub(crate) fn abort(&mut self, key: Key) -> Vec<SinkEffect> {
        let Some(state) = self.live.get_mut(&key) else { return Vec::new() };
        if *state == Receiving::Closing {
            return Vec::new();
        }
        let early = matches!(state, Receiving::Filling { .. }) && !self.guarantees.hold(Guarantee::PinUntilClosed);
        *state = Receiving::Closing;
        let mut out = vec![SinkEffect::Send(key, ToSource::Abort)];
        if early {
            out.push(SinkEffect::Free(key));
        }
        out
    }

    /// A message from the source.
    pub(crate) fn receive(&mut self, key: Key, message: ToSink) -> Vec<SinkEffect> {
        let key = self.named(key);
        let Some(state) = self.live.get_mut(&key) else {
            let answer = message != ToSink::Closed && self.guarantees.hold(Guarantee::AnswerUnknown);
            return answer.then_some(SinkEffect::Send(key, ToSource::Abort)).into_iter().collect();
        };
        match (message, state) {
            (ToSink::Closed, state) => {
                let lost = *state != Receiving::Closing;
                self.live.remove(&key);
                let mut out = vec![SinkEffect::Free(key)];
                out.extend(lost.then_some(SinkEffect::Lost(key)));
                out
            }
            (ToSink::Started, state @ Receiving::Asked) => {
                *state = Receiving::Wanting;
                vec![SinkEffect::WantMemory(key)]
            }
            (ToSink::Page(page), Receiving::Filling { total, got, .. }) if page < *total => {
                if !got.insert(page) && self.guarantees.hold(Guarantee::OneWriter) {
                    return Vec::new();
                }
                let mut out = vec![SinkEffect::Write(key, page)];
                out.extend(self.deliver(key));
                out
            }
            (ToSink::Finish, Receiving::Filling { finished, .. }) => {
                *finished = true;
                self.deliver(key)
            }
            _ => Vec::new(),
        }
    }

    /// The link is gone, and with it every writer: nothing more can come for any key.
    pub(crate) fn link_down(&mut self) -> Vec<SinkEffect> {
        if !self.guarantees.hold(Guarantee::EndWithLink) {
            return Vec::new();
        }
        let mut out = Vec::new();
        for (key, state) in std::mem::take(&mut self.live) {
            out.push(SinkEffect::Free(key));
            out.extend((state != Receiving::Closing).then_some(SinkEffect::Lost(key)));
        }
        out
    }

    /// Delivers a sequence if everything is there.
    fn deliver(&mut self, key: Key) -> Vec<SinkEffect> {
        let Some(Receiving::Filling { total, got, finished: true }) = self.live.get(&key) else { return Vec::new() };
        if got.len() < *total as usize && self.guarantees.hold(Guarantee::CompleteBeforeDelivery) {
            return Vec::new();
        }
        if self.guarantees.hold(Guarantee::EndsAreFinal) {
            self.live.remove(&key);
        }
        vec![SinkEffect::Deliver(key), SinkEffect::Send(key, ToSource::Ack)]
    }

    /// The key that a message acts on: its own.
    fn named(&self, key: Key) -> Key {
        if self.guarantees.hold(Guarantee::Generation) {
            return key;
        }
        self.live.keys().find(|live| live.room == key.room).copied().unwrap_or(key)
    }
}
