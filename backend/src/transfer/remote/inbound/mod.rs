//! The decode worker's side of its links: asks for sequences, reserves memory for them, takes their pages.

mod peer;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use super::carrier::Target;
use super::dial::Links;
use super::frame::{Body, Frame};
use super::job::First;
use super::link::LinkEvent;
use crate::api::Stage;
use crate::exec::CacheSpec;
use crate::kv::{BlockTable, Kv, Slot};
use crate::sequence::{Prefilled, Resident, Sequence, Waiting};
use crate::transfer::protocol::{Key, SinkEffect, ToSink};
use crate::transfer::slices::Slices;
use crate::transfer::{Flow, Inbound};
use peer::{Asked, Peer};

/// Frames taken in one turn, so that decoding goes on meanwhile.
const FRAMES: usize = 256;
/// Prefill workers that one decode worker is linked to.
const PEERS: usize = 256;

/// A transfer: the peer and the key on its link.
type At = (SocketAddr, Key);

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
    links: Links,
    slices: Slices,
    /// The prefill worker of sequences that name none.
    only: Option<SocketAddr>,
    peers: BTreeMap<SocketAddr, Peer>,
    /// Memory reserved for pages. It outlives its sequence when that is aborted, until the source has closed.
    reserved: BTreeMap<At, (BlockTable, Slot)>,
    /// Transfers that want memory, oldest first.
    wanting: VecDeque<At>,
    ready: VecDeque<Prefilled<Resident>>,
    generation: u64,
    arrivals: u64,
    flow: Flow,
}

impl RemoteIn {
    pub(crate) fn new(links: Links, only: Option<SocketAddr>, cache: &CacheSpec) -> Self {
        let mut this = Self {
            links,
            slices: Slices::of(cache),
            only,
            peers: BTreeMap::new(),
            reserved: BTreeMap::new(),
            wanting: VecDeque::new(),
            ready: VecDeque::new(),
            generation: 0,
            arrivals: 0,
            flow: Flow::default(),
        };
        if let Some(Err(why)) = only.map(|address| this.open(address)) {
            tracing::error!(%why, "no link can be made");
        }
        this
    }

    /// Makes sure that there is a peer for an address.
    fn open(&mut self, address: SocketAddr) -> Result<(), String> {
        if self.peers.contains_key(&address) {
            return Ok(());
        }
        if self.peers.len() >= PEERS {
            return Err(format!("this worker is linked to {PEERS} prefill workers already, which is the most"));
        }
        let dialer = self.links.dial(address).map_err(|e| e.to_string())?;
        self.peers.insert(address, Peer::new(address, dialer));
        Ok(())
    }

    fn with(&mut self, address: SocketAddr, act: impl FnOnce(&mut Peer, &mut u64) -> Vec<SinkEffect>) {
        let Some(peer) = self.peers.get_mut(&address) else { return };
        let effects = act(peer, &mut self.generation);
        effects.into_iter().for_each(|e| self.apply_without_memory(address, e));
    }

    fn hear(&mut self, address: SocketAddr, event: LinkEvent, kv: &mut Kv<'_>) {
        let Some(peer) = self.peers.get_mut(&address) else { return };
        match event {
            LinkEvent::Up(handle) => peer.up(handle),
            LinkEvent::Refused(why) => peer.refused(&why),
            LinkEvent::Frame(_, frame) if frame.body == Body::Offer => peer.offered(&frame.payload, kv),
            LinkEvent::Frame(_, frame) => {
                let (key, Body::ToSink(message)) = (frame.key, frame.body) else { return };
                let mut effects = peer.sink.receive(key, message);
                if let ToSink::Page(page) = message {
                    effects = self.store((address, page), &frame, effects, kv);
                }
                effects.into_iter().for_each(|e| self.apply(address, e, message, &frame.payload, kv));
            }
            LinkEvent::Down(_, why) => {
                // Memory goes back below: nothing may be on its way into it.
                self.settle(kv);
                let Some(peer) = self.peers.get_mut(&address) else { return };
                let effects = peer.down(&why);
                effects.into_iter().for_each(|e| self.apply(address, e, ToSink::Closed, &[], kv));
            }
        }
    }

    /// Takes a page to where these effects want it. What is left to do of them.
    fn store(
        &mut self,
        (from, page): (SocketAddr, u32),
        frame: &Frame,
        effects: Vec<SinkEffect>,
        kv: &mut Kv<'_>,
    ) -> Vec<SinkEffect> {
        let Some(peer) = self.peers.get_mut(&from) else { return effects };
        let wanted = effects.iter().find_map(|e| if let SinkEffect::Write(key, _) = e { Some(*key) } else { None });
        let place = wanted.and_then(|key| self.reserved.get(&(from, key)));
        let (block, slice) = self.slices.place(page);
        match peer.store(frame, place.map(|(table, _)| Target { table, block, slice, kv })) {
            Ok(()) => {
                self.flow.pages_total += u64::from(wanted.is_some());
                self.flow.bytes_total += if wanted.is_some() { slice.bytes as u64 } else { 0 };
                effects
            }
            Err(error) => {
                peer.give_up(&error.to_string());
                // What would have been complete is lost with its page.
                let lost = |e: &SinkEffect| {
                    if let SinkEffect::Deliver(key) = e {
                        Some([SinkEffect::Free(*key), SinkEffect::Lost(*key)])
                    } else {
                        None
                    }
                };
                effects.iter().filter_map(lost).flatten().collect()
            }
        }
    }

    /// Waits for pages that the device copies itself, before anybody is told or memory goes back.
    fn settle(&mut self, kv: &mut Kv<'_>) {
        if self.peers.values().any(Peer::is_settling) {
            let outcome = kv.settle().map_err(|e| e.to_string());
            self.peers.values_mut().filter(|p| p.is_settling()).for_each(|p| p.settled(&outcome));
        }
    }

    fn apply(&mut self, from: SocketAddr, effect: SinkEffect, message: ToSink, payload: &[u8], kv: &mut Kv<'_>) {
        match effect {
            SinkEffect::Deliver(key) => self.deliver((from, key), payload, message, kv),
            SinkEffect::Lost(key) => self.lost((from, key), payload),
            other => self.apply_without_memory(from, other),
        }
    }

    fn apply_without_memory(&mut self, from: SocketAddr, effect: SinkEffect) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        match effect {
            SinkEffect::Send(key, message) => peer.backlog.push_back((key, message)),
            SinkEffect::WantMemory(key) => {
                if let Some(asked) = peer.asked.get_mut(&key) {
                    asked.waiting.leave_queue();
                    self.wanting.push_back((from, key));
                }
            }
            SinkEffect::Free(key) => {
                self.wanting.retain(|at| *at != (from, key));
                self.reserved.remove(&(from, key));
            }
            SinkEffect::Write(..) | SinkEffect::Deliver(_) | SinkEffect::Lost(_) => {}
        }
    }

    /// All pages are here: they become readable, and the sequence goes to the decode role. `Finish` came before or with
    /// the last page; the protocol's order on a link makes it the last message.
    fn deliver(&mut self, (from, key): At, payload: &[u8], message: ToSink, kv: &mut Kv<'_>) {
        let asked = self.peers.get_mut(&from).and_then(|p| p.asked.remove(&key));
        let (Some(asked), Some((mut table, slot))) = (asked, self.reserved.remove(&(from, key))) else { return };
        let first = (message == ToSink::Finish).then(|| serde_json::from_slice::<First>(payload).ok()).flatten();
        let mut fits = |f: &First| kv.knows(f.token().id) && kv.write_state(&slot, &f.state);
        let Some(first) = first.filter(|f| fits(f)) else {
            let why = "the prefill worker's last message makes no sense";
            self.with(from, |peer, generation| peer.again(asked, why, generation));
            return;
        };
        let Asked { waiting, .. } = asked;
        let arrival = waiting.arrival;
        let mut seq = waiting.seq;
        let filled = seq.tokens.len();
        table.advance(&seq.tokens, filled);
        seq.cached.get_or_insert(first.cached);
        seq.announce(Stage::Transfer);
        self.flow.completed_total += 1;
        self.ready.push_back(Prefilled { seq, arrival, first: first.token(), kv: Resident { table, slot } });
    }

    fn lost(&mut self, (from, key): At, payload: &[u8]) {
        self.flow.lost_total += 1;
        let Some(asked) = self.peers.get_mut(&from).and_then(|p| p.asked.remove(&key)) else { return };
        let unknown = || (false, "the prefill worker was lost".to_owned());
        let (is_final, why): (bool, String) = serde_json::from_slice(payload).unwrap_or_else(|_| unknown());
        if is_final {
            asked.fail(why);
        } else {
            self.with(from, |peer, generation| peer.again(asked, &why, generation));
        }
    }

    /// Reserves memory for the sequences that are being computed, oldest first.
    fn grant(&mut self, kv: &mut Kv<'_>) {
        while let Some((from, key)) = self.wanting.front().copied() {
            let Some(asked) = self.peers.get(&from).and_then(|p| p.asked.get(&key)) else {
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
            let pages = self.slices.page(table.len(), 0);
            self.reserved.insert((from, key), (table, slot));
            self.with(from, |peer, _| peer.sink.granted(key, pages));
        }
    }

    /// Takes what the links brought, a fair part from each.
    fn listen(&mut self, kv: &mut Kv<'_>) {
        let addresses: Vec<SocketAddr> = self.peers.keys().copied().collect();
        let each = FRAMES.div_ceil(addresses.len().max(1));
        for address in addresses {
            for _ in 0..each {
                let Some(Ok(event)) = self.peers.get(&address).map(|p| p.dialer.events.try_recv()) else { break };
                self.hear(address, event, kv);
            }
            self.with(address, Peer::ask_parked);
        }
    }
}

impl Inbound for RemoteIn {
    fn submit(&mut self, mut waiting: Waiting) {
        if waiting.arrival == 0 {
            self.arrivals += 1;
            waiting.arrival = self.arrivals;
        }
        let pair = waiting.seq.pair.or_else(|| self.only.map(|address| (mint_room(), address)));
        let asked = Asked { waiting, room: pair.map_or(0, |p| p.0), attempts: 1 };
        let Some((_, address)) = pair else {
            asked.fail("the request names no prefill worker".into());
            return;
        };
        match self.open(address) {
            Ok(()) => self.with(address, |peer, generation| peer.ask(asked, generation)),
            Err(why) => asked.fail(why),
        }
    }

    fn take(&mut self, kv: &mut Kv<'_>) -> Option<Prefilled<Resident>> {
        if let Some(ready) = self.ready.pop_front() {
            return Some(ready);
        }
        self.listen(kv);
        self.grant(kv);
        self.settle(kv);
        self.peers.values_mut().for_each(Peer::flush);
        self.peers.values_mut().for_each(Peer::lose_patience);
        let only = self.only;
        self.peers.retain(|address, peer| Some(*address) == only || !peer.is_forgotten());
        self.ready.pop_front()
    }

    fn waiting(&self) -> usize {
        self.peers.values().map(Peer::waiting).sum::<usize>() + self.ready.len()
    }

    fn is_starved(&self) -> bool {
        !self.wanting.is_empty()
    }

    fn sweep(&mut self, gone: &dyn Fn(&Sequence) -> bool) -> Vec<Sequence> {
        let mut out = Vec::new();
        let addresses: Vec<SocketAddr> = self.peers.keys().copied().collect();
        for address in addresses {
            self.with(address, |peer, _| {
                let (left, effects) = peer.sweep(gone);
                out.extend(left);
                effects
            });
        }
        self.flow.aborted_total += out.len() as u64;
        let (left, stay) = self.ready.drain(..).partition::<Vec<_>, _>(|p| gone(&p.seq));
        self.ready.extend(stay);
        out.extend(left.into_iter().map(|p| p.seq));
        out
    }

    fn flow(&self) -> Flow {
        Flow { rooms: self.peers.values().map(|p| p.sink.len()).sum(), ..self.flow }
    }
}
