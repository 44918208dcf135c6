//! The prefill worker's side of its links: takes jobs, computes them, sends pages as fast as each link takes them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::carrier::{Carry, RingWriter};
use super::frame::{Body, Frame};
use super::job::{First, Job, encode};
use super::link::{LinkEvent, LinkHandle};
use super::outlet::{Note, Notes, RemoteOutlet};
use super::serve::Listener;
use crate::api::GenerateRequest;
use crate::engine::{Limits, Outlet, Shared};
use crate::exec::{Executor, ModelSpec};
use crate::grammar::Guide;
use crate::kv::Ready;
use crate::sequence::{Prefilled, Prefilling, Resident, Sequence, Waiting};
use crate::transfer::protocol::{Key, Source, SourceEffect, ToSink};
use crate::transfer::{Flow, Outbound, Polled};

/// One transfer at this side. Its blocks are pinned by being owned here.
#[derive(Debug)]
struct Transfer {
    cancelled: Arc<AtomicBool>,
    /// Full blocks of a sequence that is still being computed, to be sent already.
    full: Vec<Ready>,
    done: Option<Prefilled<Resident>>,
}

impl Transfer {
    /// The block of a page that was announced as computed.
    fn block(&self, page: u32) -> Option<u32> {
        let page = page as usize;
        self.full.get(page).map(Ready::id).or_else(|| {
            let readable = self.done.as_ref()?.kv.table.readable();
            readable.ids(readable.tokens()).nth(page)
        })
    }
}

#[derive(Debug)]
struct Peer {
    handle: LinkHandle,
    source: Source,
    transfers: HashMap<Key, Transfer>,
    /// What is to be sent, with the payload of `Closed`; pages are read when it is their turn.
    backlog: VecDeque<(Key, ToSink, Vec<u8>)>,
    /// A frame that the link had no room for.
    stuck: Option<Box<Frame>>,
    carrier: Carrier,
}

/// How pages travel on a link.
#[derive(Debug)]
enum Carrier {
    /// In their frames.
    Frames,
    /// The sink was offered shared memory.
    Offered(RingWriter),
    /// Beside their frames.
    Beside(Box<dyn Carry>),
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct RemoteOut {
    listener: Listener,
    model: ModelSpec,
    limits: Limits,
    peers: HashMap<u64, Peer>,
    notes: Notes,
    shared: Arc<Shared>,
    flow: Flow,
}

impl RemoteOut {
    pub(crate) fn new(listener: Listener, model: ModelSpec, limits: Limits, shared: Arc<Shared>) -> Self {
        Self { listener, model, limits, peers: HashMap::new(), notes: Notes::default(), shared, flow: Flow::default() }
    }

    fn hear(&mut self, event: LinkEvent, new: &mut Vec<Waiting>) {
        match event {
            LinkEvent::Up(handle) => {
                tracing::info!(link = handle.id, "a decode worker is linked");
                let (source, transfers) = (Source::default(), HashMap::new());
                let backlog = VecDeque::new();
                let mut peer = Peer { source, transfers, backlog, stuck: None, handle, carrier: Carrier::Frames };
                peer.offer(self.model.cache.block_bytes());
                self.peers.insert(peer.handle.id, peer);
            }
            LinkEvent::Frame(link, frame) => {
                let Some(peer) = self.peers.get_mut(&link) else { return };
                if frame.body == Body::Accept {
                    peer.accepted();
                    return;
                }
                let Body::ToSource(message) = frame.body else {
                    tracing::warn!(link, "a decode worker sent a prefill worker's message; the link is closed");
                    self.drop_peer(link);
                    return;
                };
                for effect in peer.source.receive(frame.key, message) {
                    if effect == SourceEffect::Begin(frame.key) {
                        new.extend(self.begin(link, frame.key, &frame.payload));
                    } else {
                        self.apply(link, effect, Vec::new());
                    }
                }
            }
            // Only a dialer sends it.
            LinkEvent::Refused(_) => {}
            LinkEvent::Down(link, why) => {
                tracing::info!(link, %why, "a decode worker's link ended");
                self.drop_peer(link);
            }
        }
    }

    fn drop_peer(&mut self, link: u64) {
        let effects = self.peers.get_mut(&link).map(|p| p.source.link_down()).unwrap_or_default();
        effects.into_iter().for_each(|e| self.apply(link, e, Vec::new()));
        self.peers.remove(&link);
    }

    /// A new sequence, unless the job makes no sense: then the sink is told that trying again is no use.
    fn begin(&mut self, link: u64, key: Key, payload: &[u8]) -> Option<Waiting> {
        let job: Result<Job, String> = serde_json::from_slice(payload).map_err(|e| e.to_string());
        match job.and_then(|job| self.check(job)) {
            Ok(job) => {
                let (outlet, cancelled) = RemoteOutlet::new(link, key, &self.notes);
                let request = GenerateRequest {
                    id: job.id.as_str().into(),
                    sampling: job.sampling(),
                    prompt: job.tokens,
                    stop_ids: Vec::new(),
                    max_tokens: 1,
                    logprobs: job.logprobs,
                    grammar: None,
                    priority: job.priority,
                    deadline: None,
                    share: job.share,
                };
                let guide = job.mask.map(|mask| Guide::given(Some(mask.into())));
                let mut seq = Sequence::new(request, Outlet::Remote(outlet), guide, self.shared.live());
                seq.prompt_len = job.prompt_len;
                self.peers.get_mut(&link)?.transfers.insert(key, Transfer { cancelled, full: Vec::new(), done: None });
                Some(Waiting::unqueued(seq))
            }
            Err(why) => {
                self.fail(link, key, &(true, why));
                None
            }
        }
    }

    fn check(&self, job: Job) -> Result<Job, String> {
        let (tokens, most) = (job.tokens.len(), self.limits.max_total_tokens);
        if tokens == 0 || tokens >= most || job.prompt_len > tokens || job.prompt_len == 0 {
            return Err(format!("the prefill worker takes 1 to {} tokens, not {tokens}", most - 1));
        }
        let words = self.model.vocab_size.div_ceil(32) as usize;
        if job.mask.as_ref().is_some_and(|mask| mask.len() < words) {
            return Err("the grammar's mask is shorter than the vocabulary".into());
        }
        match job.tokens.iter().find(|t| **t >= self.model.vocab_size) {
            Some(token) => Err(format!("token {token} is outside the vocabulary")),
            None => Ok(job),
        }
    }

    /// Ends a transfer here; `why` says whether that is final, and the reason.
    fn fail(&mut self, link: u64, key: Key, why: &(bool, String)) {
        let Some(peer) = self.peers.get_mut(&link) else { return };
        self.flow.lost_total += 1;
        peer.transfers.remove(&key);
        for effect in peer.source.fail(key) {
            self.apply(link, effect, encode(why));
        }
    }

    fn apply(&mut self, link: u64, effect: SourceEffect, payload: Vec<u8>) {
        let Some(peer) = self.peers.get_mut(&link) else { return };
        match effect {
            SourceEffect::Begin(_) => {}
            SourceEffect::Send(key, message) => peer.backlog.push_back((key, message, payload)),
            SourceEffect::Release(key) => {
                self.flow.completed_total += 1;
                peer.transfers.remove(&key);
            }
            SourceEffect::Cancel(key) => {
                self.flow.aborted_total += 1;
                if let Some(transfer) = peer.transfers.remove(&key) {
                    transfer.cancelled.store(true, Ordering::Release);
                }
            }
        }
    }

    fn take_notes(&mut self) {
        for (link, key, note) in self.notes.take() {
            match note {
                Note::Started => {
                    let effects = self.peers.get_mut(&link).map(|p| p.source.started(key)).unwrap_or_default();
                    effects.into_iter().for_each(|e| self.apply(link, e, Vec::new()));
                }
                Note::Failed(why) => self.fail(link, key, &(false, why)),
            }
        }
    }
}

impl Peer {
    /// Offers shared memory, if there is any; a sink on another machine will not find it.
    fn offer(&mut self, page: usize) {
        match RingWriter::create(page) {
            Ok(ring) => {
                if self.handle.send(Frame::of_link(Body::Offer, ring.offer())).is_ok() {
                    self.carrier = Carrier::Offered(ring);
                }
            }
            Err(error) => tracing::debug!(%error, "no shared memory; pages travel in frames"),
        }
    }

    fn accepted(&mut self) {
        if let Carrier::Offered(mut ring) = std::mem::replace(&mut self.carrier, Carrier::Frames) {
            ring.unname();
            self.carrier = Carrier::Beside(Box::new(ring));
        }
    }

    /// The frame of a page; none while there is no room for it.
    fn carry(&mut self, key: Key, page: u32, block: u32, device: &dyn Executor) -> Option<Frame> {
        let body = Body::ToSink(ToSink::Page(page));
        if let Carrier::Beside(carrier) = &mut self.carrier {
            let placed = carrier.has_room().and_then(|room| {
                let put = || carrier.put(&read_page(block, device));
                room.then(put).transpose()
            });
            match placed {
                Ok(Some(place)) => return Some(Frame { carried: true, ..Frame::new(key, body, place) }),
                Ok(None) => {
                    self.backlog.push_front((key, ToSink::Page(page), Vec::new()));
                    return None;
                }
                Err(error) => {
                    tracing::warn!(%error, "shared memory is broken; pages travel in frames");
                    self.carrier = Carrier::Frames;
                }
            }
        }
        Some(Frame::new(key, body, read_page(block, device)))
    }

    /// Sends while the link has room. Says whether anything was sent.
    fn flush(&mut self, device: &dyn Executor, flow: &mut Flow) -> bool {
        let mut sent = false;
        loop {
            let next = self.stuck.take().map(|f| *f).or_else(|| self.next_frame(device));
            let Some(frame) = next else { return sent };
            let pages = u64::from(frame.is_page());
            if let Err(frame) = self.handle.send(frame) {
                self.stuck = Some(frame);
                return sent;
            }
            flow.pages_total += pages;
            flow.bytes_total += pages * device.model().cache.block_bytes() as u64;
            sent = true;
        }
    }

    fn next_frame(&mut self, device: &dyn Executor) -> Option<Frame> {
        while let Some((key, message, payload)) = self.backlog.pop_front() {
            let payload = match message {
                ToSink::Started | ToSink::Closed => Some(payload),
                ToSink::Page(page) => match self.transfers.get(&key).and_then(|t| t.block(page)) {
                    Some(block) => return self.carry(key, page, block, device),
                    None => None,
                },
                ToSink::Finish => self.done(key).map(|p| encode(&first(p, device))),
            };
            // What was cancelled since then is not sent.
            if let Some(payload) = payload {
                return Some(Frame::new(key, Body::ToSink(message), payload));
            }
        }
        None
    }

    fn done(&self, key: Key) -> Option<&Prefilled<Resident>> {
        self.transfers.get(&key)?.done.as_ref()
    }
}

fn read_page(block: u32, device: &dyn Executor) -> Vec<u8> {
    let mut bytes = vec![0; device.model().cache.block_bytes()];
    device.read_block(block, &mut bytes);
    bytes
}

fn first(sequence: &Prefilled<Resident>, device: &dyn Executor) -> First {
    let mut state = vec![0; device.model().cache.state_bytes()];
    device.read_state(sequence.kv.slot.id(), &mut state);
    First::new(&sequence.first, sequence.seq.cached.unwrap_or(0), state)
}

impl Outbound for RemoteOut {
    fn progress(&mut self, sequence: &Prefilling) {
        let Outlet::Remote(outlet) = &sequence.seq.outlet else { return };
        let (link, key) = (outlet.link, outlet.key);
        let Some(peer) = self.peers.get_mut(&link) else { return };
        let Some(transfer) = peer.transfers.get_mut(&key) else { return };
        transfer.full.extend(sequence.table.full(transfer.full.len()));
        for effect in peer.source.ready(key, transfer.full.len() as u32, false) {
            self.apply(link, effect, Vec::new());
        }
    }

    fn offer(&mut self, sequence: Prefilled<Resident>, _: &dyn Executor) -> Option<Box<Prefilled<Resident>>> {
        let Outlet::Remote(outlet) = &sequence.seq.outlet else { return None };
        let (link, key) = (outlet.link, outlet.key);
        let peer = self.peers.get_mut(&link)?;
        let readable = sequence.kv.table.readable();
        let pages = readable.ids(readable.tokens()).count() as u32;
        peer.transfers.get_mut(&key)?.done = Some(sequence);
        for effect in peer.source.ready(key, pages, true) {
            self.apply(link, effect, Vec::new());
        }
        None
    }

    fn poll(&mut self, device: &dyn Executor) -> Polled {
        let mut new = Vec::new();
        let events: Vec<_> = self.listener.events.try_iter().collect();
        events.into_iter().for_each(|e| self.hear(e, &mut new));
        self.take_notes();
        let mut moved = false;
        for peer in self.peers.values_mut() {
            moved |= peer.flush(device, &mut self.flow);
        }
        Polled { new, moved }
    }

    fn flow(&self) -> Flow {
        let rooms = self.peers.values().map(|p| p.source.len()).sum();
        let pages_in_flight = self.peers.values().map(|p| p.handle.pages_in_flight()).sum();
        Flow { rooms, pages_in_flight, ..self.flow }
    }

    fn held(&self) -> usize {
        self.peers.values().flat_map(|p| p.transfers.values()).filter(|t| t.done.is_some()).count()
    }
}
