//! One prefill worker as a decode worker sees it: the link to it, what is asked of it, and what waits for it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::api::{EngineError, Event};
use crate::kv::Kv;
use crate::sequence::{Sequence, Waiting};
use crate::transfer::protocol::{Key, Sink, SinkEffect, ToSource};
use crate::transfer::remote::carrier::{Fetch, Target, choose};
use crate::transfer::remote::dial::Dialer;
use crate::transfer::remote::frame::{Body, Frame};
use crate::transfer::remote::job::{Job, encode};
use crate::transfer::remote::link::LinkHandle;

/// How often a sequence that the prefill worker lost is asked for again.
const ATTEMPTS: u32 = 3;
/// How long sequences wait for a link before they fail.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a link that nobody uses is kept.
const KEPT: Duration = Duration::from_secs(60);

/// A sequence that is not here yet.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) waiting: Waiting,
    /// Its name in the logs of both sides, for all attempts.
    pub(super) room: u64,
    pub(super) attempts: u32,
}

impl Asked {
    /// Whether someone else can do better than wait here: a gateway chose this peer, and knows what its client has seen.
    fn can_go_elsewhere(&self) -> bool {
        self.waiting.seq.pair.is_some()
    }

    pub(super) fn fail(&self, why: String) {
        self.waiting.seq.outlet.send(Event::Failed(EngineError::Worker(why)));
    }
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) dialer: Dialer,
    pub(super) link: Option<LinkHandle>,
    pub(super) sink: Sink,
    pub(super) asked: BTreeMap<Key, Asked>,
    /// Sequences that wait for a link, or for their client to read.
    pub(super) parked: VecDeque<Asked>,
    pub(super) backlog: VecDeque<(Key, ToSource)>,
    /// Where pages are that travel beside their frames.
    carrier: Option<Box<dyn Fetch>>,
    /// Why pages are not copied from GPU to GPU any more.
    broken: Option<String>,
    without_link_since: Option<Instant>,
    used: Instant,
}

impl Peer {
    pub(super) fn new(address: SocketAddr, dialer: Dialer) -> Self {
        let now = Instant::now();
        Self {
            address,
            dialer,
            link: None,
            sink: Sink::default(),
            asked: BTreeMap::new(),
            parked: VecDeque::new(),
            backlog: VecDeque::new(),
            carrier: None,
            broken: None,
            without_link_since: Some(now),
            used: now,
        }
    }

    /// Asks for a sequence, now or when that is possible. `generation` must be new on this link.
    pub(super) fn ask(&mut self, asked: Asked, generation: &mut u64) -> Vec<SinkEffect> {
        self.used = Instant::now();
        // A preempted sequence of a slow client is not computed before its next token can be sent, nor one whose mask
        // is not known yet.
        let ready = asked.waiting.seq.has_room() && asked.waiting.seq.has_mask();
        if self.link.is_none() || !ready {
            self.parked.push_back(asked);
            return Vec::new();
        }
        *generation += 1;
        let key = Key { room: asked.room, generation: *generation };
        self.asked.insert(key, asked);
        self.sink.start(key)
    }

    /// Asks again for what can be asked for.
    pub(super) fn ask_parked(&mut self, generation: &mut u64) -> Vec<SinkEffect> {
        let parked = std::mem::take(&mut self.parked);
        parked.into_iter().flat_map(|a| self.ask(a, generation)).collect()
    }

    pub(super) fn up(&mut self, link: LinkHandle) {
        tracing::info!(peer = %self.address, "linked to the prefill worker");
        self.link = Some(link);
        self.without_link_since = None;
    }

    /// Nothing more comes from the link that was.
    pub(super) fn down(&mut self, why: &str) -> Vec<SinkEffect> {
        tracing::warn!(peer = %self.address, %why, "the link to the prefill worker ended");
        self.link = None;
        self.carrier = None;
        self.backlog.clear();
        self.without_link_since = Some(Instant::now());
        self.sink.link_down()
    }

    /// Uses what the source offers, if this end can.
    pub(super) fn offered(&mut self, offer: &[u8], kv: &mut Kv<'_>) {
        let (carrier, answer) = choose(offer, kv, self.broken.as_deref());
        if self.link.as_ref().is_some_and(|link| link.send(Frame::of_link(Body::Accept, answer)).is_ok()) {
            self.carrier = carrier;
        }
    }

    /// Brings the page of a frame to where it is wanted. One that nobody wants is taken too, so that its place is free.
    ///
    /// # Errors
    /// It is not where the frame says, or does not fit.
    pub(super) fn store(&mut self, frame: &Frame, target: Option<Target<'_, '_>>) -> io::Result<()> {
        if !frame.carried {
            return target.map_or(Ok(()), |target| target.write(&frame.payload));
        }
        let carrier = self.carrier.as_mut().ok_or_else(|| io::Error::other("a page travels by no known way"))?;
        carrier.take(&frame.payload, target)
    }

    /// Whether pages are still on their way into memory that was granted.
    pub(super) fn is_settling(&self) -> bool {
        self.carrier.as_ref().is_some_and(|c| c.is_settling())
    }

    /// What was taken has arrived, or can't any more.
    pub(super) fn settled(&mut self, outcome: &Result<(), String>) {
        let told = self.carrier.as_mut().map_or(Ok(()), |c| if outcome.is_ok() { c.settled() } else { Ok(()) });
        if let Some(why) = outcome.clone().err().or_else(|| told.err().map(|e| e.to_string())) {
            self.give_up(&why);
        }
    }

    /// Ends the link, whose pages can't be had.
    pub(super) fn give_up(&mut self, why: &str) {
        tracing::error!(peer = %self.address, %why, "a page was lost on its way; the link is closed");
        self.broken = Some(why.to_owned());
        self.link = None;
    }

    /// No link could be made: whoever can go elsewhere hears it at once.
    pub(super) fn refused(&mut self, why: &str) {
        let waiting = std::mem::take(&mut self.parked);
        let (leave, stay) = waiting.into_iter().partition::<VecDeque<_>, _>(Asked::can_go_elsewhere);
        self.parked = stay;
        leave.iter().for_each(|a| a.fail(format!("no link to the prefill worker at {}: {why}", self.address)));
    }

    /// A sequence was lost on its way: it is asked for again, or fails.
    pub(super) fn again(&mut self, asked: Asked, why: &str, generation: &mut u64) -> Vec<SinkEffect> {
        if asked.can_go_elsewhere() {
            asked.fail(format!("{why} ({})", self.address));
        } else if asked.attempts < ATTEMPTS {
            return self.ask(Asked { attempts: asked.attempts + 1, ..asked }, generation);
        } else {
            asked.fail(format!("{why}, {ATTEMPTS} times ({})", self.address));
        }
        Vec::new()
    }

    /// Sends while the link has room.
    pub(super) fn flush(&mut self) {
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
    pub(super) fn lose_patience(&mut self) {
        if self.without_link_since.is_some_and(|since| since.elapsed() > PATIENCE) {
            let why = format!("no link to the prefill worker at {}", self.address);
            self.parked.drain(..).for_each(|a| a.fail(why.clone()));
        }
    }

    /// Whether nothing is asked of it and nothing was for a while.
    pub(super) fn is_forgotten(&self) -> bool {
        self.asked.is_empty() && self.parked.is_empty() && self.sink.is_empty() && self.used.elapsed() > KEPT
    }

    pub(super) fn waiting(&self) -> usize {
        self.asked.len() + self.parked.len()
    }

    /// Removes every sequence for which `gone` holds; the effects close the transfers of those that were asked for.
    pub(super) fn sweep(&mut self, gone: &dyn Fn(&Sequence) -> bool) -> (Vec<Sequence>, Vec<SinkEffect>) {
        let (mut out, mut effects) = (Vec::new(), Vec::new());
        let keys: Vec<Key> = self.asked.iter().filter(|(_, a)| gone(&a.waiting.seq)).map(|(k, _)| *k).collect();
        for key in keys {
            effects.extend(self.sink.abort(key));
            out.extend(self.asked.remove(&key).map(|a| a.waiting.seq));
        }
        let (left, stay) = self.parked.drain(..).partition::<Vec<_>, _>(|a| gone(&a.waiting.seq));
        self.parked.extend(stay);
        out.extend(left.into_iter().map(|a| a.waiting.seq));
        (out, effects)
    }
}
