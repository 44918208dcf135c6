//! The decode worker's side of its link: asks for sequences, reserves memory for them, takes their pages.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::dial::Dialer;
use super::frame::{Body, Frame};
use super::job::{First, Job, encode};
use super::link::{LinkEvent, LinkHandle};
use crate::api::{EngineError, Event, Stage};
use crate::kv::{BlockTable, Kv, Slot};
use crate::sequence::{Prefilled, Resident, Sequence, Waiting};
use crate::transfer::Inbound;
use crate::transfer::protocol::{Key, Sink, SinkEffect, ToSink, ToSource};

/// How often a sequence that the prefill worker lost is asked for again.
const ATTEMPTS: u32 = 3;
/// How long sequences wait for a link before they fail.
const PATIENCE: Duration = Duration::from_secs(5);
/// Frames taken in one turn, so that decoding goes on meanwhile.
const FRAMES: usize = 256;

/// A sequence that is not here yet.
#[derive(Debug)]
struct Asked {
    waiting: Waiting,
    /// Its name in the logs of both sides, for all attempts.
    room: u64,
    attempts: u32,
}

/// A random room: 63 bits, not zero, never a client's choice.
fn mint_room() -> u64 {
    let mut bytes = [0; 8];
    // Generations alone keep transfers apart; a room only has to be hard to guess.
    if getrandom::fill(&mut bytes).is_err() {
        tracing::warn!("the system has no randomness; rooms can be guessed");
    }
    (u64::from_le_bytes(bytes) >> 1).max(1)
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct RemoteIn {
    dialer: Dialer,
    link: Option<LinkHandle>,
    sink: Sink,
    asked: BTreeMap<Key, Asked>,
    /// Memory reserved for pages. It outlives its sequence when that is aborted, until the source has closed.
    reserved: BTreeMap<Key, (BlockTable, Slot)>,
    wanting: VecDeque<Key>,
    /// Sequences that wait for a link, or for their client to read.
    parked: VecDeque<Asked>,
    ready: VecDeque<Prefilled<Resident>>,
    backlog: VecDeque<(Key, ToSource)>,
    without_link_since: Option<Instant>,
    generation: u64,
    arrivals: u64,
}

impl RemoteIn {
    pub(crate) fn new(dialer: Dialer) -> Self {
        Self {
            dialer,
            link: None,
            sink: Sink::default(),
            asked: BTreeMap::new(),
            reserved: BTreeMap::new(),
            wanting: VecDeque::new(),
            parked: VecDeque::new(),
            ready: VecDeque::new(),
            backlog: VecDeque::new(),
            without_link_since: Some(Instant::now()),
            generation: 0,
            arrivals: 0,
        }
    }

    fn ask(&mut self, asked: Asked) {
        // A preempted sequence of a slow client is not computed before its next token can be sent, nor one whose mask
        // is not known yet.
        let ready = asked.waiting.seq.has_room() && asked.waiting.seq.has_mask();
        if self.link.is_none() || !ready {
            self.parked.push_back(asked);
            return;
        }
        self.generation += 1;
        let key = Key { room: asked.room, generation: self.generation };
        self.asked.insert(key, asked);
        for effect in self.sink.start(key) {
            self.apply_without_memory(effect);
        }
    }

    fn hear(&mut self, event: LinkEvent, kv: &mut Kv<'_>) {
        match event {
            LinkEvent::Up(handle) => {
                tracing::info!("linked to the prefill worker");
                self.link = Some(handle);
                self.without_link_since = None;
            }
            LinkEvent::Frame(_, frame) => {
                if let Body::ToSink(message) = frame.body {
                    let effects = self.sink.receive(frame.key, message);
                    effects.into_iter().for_each(|e| self.apply(e, message, &frame.payload, kv));
                }
            }
            LinkEvent::Down(_, why) => {
                tracing::warn!(%why, "the link to the prefill worker ended");
                self.link = None;
                self.backlog.clear();
                self.without_link_since = Some(Instant::now());
                let effects = self.sink.link_down();
                effects.into_iter().for_each(|e| self.apply(e, ToSink::Closed, &[], kv));
            }
        }
    }

    fn apply(&mut self, effect: SinkEffect, message: ToSink, payload: &[u8], kv: &mut Kv<'_>) {
        match effect {
            SinkEffect::Write(key, page) => {
                let written = self.reserved.get(&key).is_some_and(|(table, _)| kv.write_block(table, page, payload));
                if !written {
                    tracing::error!(page, "the prefill worker sent a page of the wrong size; the link is closed");
                    self.link = None;
                }
            }
            SinkEffect::Deliver(key) => self.deliver(key, payload, message, kv),
            SinkEffect::Lost(key) => self.lost(key, payload),
            other => self.apply_without_memory(other),
        }
    }

    fn apply_without_memory(&mut self, effect: SinkEffect) {
        match effect {
            SinkEffect::Send(key, message) => self.backlog.push_back((key, message)),
            SinkEffect::WantMemory(key) => {
                if let Some(asked) = self.asked.get_mut(&key) {
                    asked.waiting.leave_queue();
                    self.wanting.push_back(key);
                }
            }
            SinkEffect::Free(key) => {
                self.wanting.retain(|k| *k != key);
                self.reserved.remove(&key);
            }
            SinkEffect::Write(..) | SinkEffect::Deliver(_) | SinkEffect::Lost(_) => {}
        }
    }

    /// All pages are here: they become readable, and the sequence goes to the decode role. `Finish` came before or with
    /// the last page; the protocol's order on a link makes it the last message.
    fn deliver(&mut self, key: Key, payload: &[u8], message: ToSink, kv: &mut Kv<'_>) {
        let (Some(asked), Some((mut table, slot))) = (self.asked.remove(&key), self.reserved.remove(&key)) else {
            return;
        };
        let first = (message == ToSink::Finish).then(|| serde_json::from_slice::<First>(payload).ok()).flatten();
        let Some(first) = first else {
            self.again(asked, "the prefill worker's last message cannot be read".into());
            return;
        };
        let Asked { waiting, .. } = asked;
        let arrival = waiting.arrival;
        let mut seq = waiting.seq;
        let filled = seq.tokens.len();
        table.advance(&seq.tokens, filled);
        kv.write_state(&slot, &first.state);
        seq.cached.get_or_insert(first.cached);
        seq.announce(Stage::Transfer);
        self.ready.push_back(Prefilled { seq, arrival, first: first.token(), kv: Resident { table, slot } });
    }

    fn lost(&mut self, key: Key, payload: &[u8]) {
        let Some(asked) = self.asked.remove(&key) else { return };
        let unknown = || (false, "the prefill worker was lost".to_owned());
        let (is_final, why): (bool, String) = serde_json::from_slice(payload).unwrap_or_else(|_| unknown());
        if is_final {
            fail(&asked.waiting.seq, why);
        } else {
            self.again(asked, why);
        }
    }

    fn again(&mut self, asked: Asked, why: String) {
        if asked.attempts < ATTEMPTS {
            self.ask(Asked { attempts: asked.attempts + 1, ..asked });
        } else {
            fail(&asked.waiting.seq, format!("{why}, {ATTEMPTS} times"));
        }
    }

    /// Reserves memory for the sequences that are being computed, oldest first.
    fn grant(&mut self, kv: &mut Kv<'_>) {
        while let Some(key) = self.wanting.front().copied() {
            let Some(asked) = self.asked.get(&key) else {
                self.wanting.pop_front();
                continue;
            };
            let tokens = asked.waiting.seq.tokens.len();
            let Some(slot) = kv.slot() else { return };
            let mut table = kv.empty_table();
            if !kv.grow(&mut table, tokens) {
                return;
            }
            self.wanting.pop_front();
            let pages = table.len() as u32;
            self.reserved.insert(key, (table, slot));
            let effects = self.sink.granted(key, pages);
            effects.into_iter().for_each(|e| self.apply_without_memory(e));
        }
    }

    fn flush(&mut self) {
        let Some(link) = &self.link else { return };
        while let Some((key, message)) = self.backlog.pop_front() {
            let payload = match (message, self.asked.get(&key)) {
                (ToSource::Start, Some(asked)) => encode(&Job::of(&asked.waiting.seq)),
                // Aborted before it was asked for; the `Abort` that follows does no harm.
                (ToSource::Start, None) => continue,
                _ => Vec::new(),
            };
            if link.send(Frame::new(key, Body::ToSource(message), payload)).is_err() {
                self.backlog.push_front((key, message));
                return;
            }
        }
    }

    /// Fails what has waited too long for a link.
    fn lose_patience(&mut self) {
        if self.without_link_since.is_some_and(|since| since.elapsed() > PATIENCE) {
            self.parked.drain(..).for_each(|a| fail(&a.waiting.seq, "no link to the prefill worker".into()));
        }
    }
}

fn fail(seq: &Sequence, why: String) {
    seq.outlet.send(Event::Failed(EngineError::Worker(why)));
}

impl Inbound for RemoteIn {
    fn submit(&mut self, mut waiting: Waiting) {
        if waiting.arrival == 0 {
            self.arrivals += 1;
            waiting.arrival = self.arrivals;
        }
        self.ask(Asked { waiting, room: mint_room(), attempts: 1 });
    }

    fn take(&mut self, kv: &mut Kv<'_>) -> Option<Prefilled<Resident>> {
        if let Some(ready) = self.ready.pop_front() {
            return Some(ready);
        }
        for _ in 0..FRAMES {
            let Ok(event) = self.dialer.events.try_recv() else { break };
            self.hear(event, kv);
        }
        std::mem::take(&mut self.parked).into_iter().for_each(|a| self.ask(a));
        self.grant(kv);
        self.flush();
        self.lose_patience();
        self.ready.pop_front()
    }

    fn waiting(&self) -> usize {
        self.asked.len() + self.parked.len() + self.ready.len()
    }

    fn is_starved(&self) -> bool {
        !self.wanting.is_empty()
    }

    fn sweep(&mut self, gone: &dyn Fn(&Sequence) -> bool) -> Vec<Sequence> {
        let mut out = Vec::new();
        let keys: Vec<Key> = self.asked.iter().filter(|(_, a)| gone(&a.waiting.seq)).map(|(k, _)| *k).collect();
        for key in keys {
            let effects = self.sink.abort(key);
            effects.into_iter().for_each(|e| self.apply_without_memory(e));
            self.wanting.retain(|k| *k != key);
            out.extend(self.asked.remove(&key).map(|a| a.waiting.seq));
        }
        let (left, stay) = self.parked.drain(..).partition::<Vec<_>, _>(|a| gone(&a.waiting.seq));
        self.parked.extend(stay);
        out.extend(left.into_iter().map(|a| a.waiting.seq));
        let (left, stay) = self.ready.drain(..).partition::<Vec<_>, _>(|p| gone(&p.seq));
        self.ready.extend(stay);
        out.extend(left.into_iter().map(|p| p.seq));
        out
    }
}
