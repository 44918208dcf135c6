//! The prefill worker's side of its links: takes jobs, computes them, sends pages as fast as each link takes them.

mod peer;
mod sending;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::carrier::{Carry, Export};
use super::frame::Body;
use super::job::{Job, encode};
use super::link::LinkEvent;
use super::outlet::{Note, Notes, RemoteOutlet};
use super::serve::Listener;
use crate::api::GenerateRequest;
use crate::engine::{Limits, Outlet, Shared};
use crate::exec::{CacheReader, Executor, ModelSpec};
use crate::grammar::Guide;
use crate::sequence::{Prefilled, Prefilling, Resident, Sequence, Waiting};
use crate::transfer::protocol::{Key, Source, SourceEffect};
use crate::transfer::slices::Slices;
use crate::transfer::{Flow, Outbound, Polled};
use peer::{Carrier, Peer};
use sending::Transfer;

/// How long decode workers are waited for that may be reading this device.
const LEAVE: Duration = Duration::from_secs(2);

/// See the file's head.
#[derive(Debug)]
pub(crate) struct RemoteOut {
    listener: Listener,
    model: ModelSpec,
    slices: Slices,
    export: Export,
    limits: Limits,
    peers: HashMap<u64, Peer>,
    /// Blocks of links that have ended, until nobody can read them.
    retired: Vec<(Box<dyn Carry>, Vec<Transfer>)>,
    notes: Notes,
    /// Sequences that were asked for since the last turn.
    new: Vec<Waiting>,
    shared: Arc<Shared>,
    flow: Flow,
}

impl RemoteOut {
    pub(crate) fn new(
        listener: Listener,
        (model, export): (ModelSpec, Export),
        limits: Limits,
        shared: Arc<Shared>,
    ) -> Self {
        let (peers, retired, new) = (HashMap::new(), Vec::new(), Vec::new());
        let (notes, flow) = (Notes::default(), Flow::default());
        let slices = Slices::of(&model.cache);
        Self { listener, model, slices, export, limits, peers, retired, notes, new, shared, flow }
    }

    fn hear(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up(handle) => {
                tracing::info!(link = handle.id, "a decode worker is linked");
                let (source, transfers) = (Source::default(), HashMap::new());
                let (backlog, carrier) = (VecDeque::new(), Carrier::Frames);
                let (draining, is_broken) = (Vec::new(), false);
                let mut peer = Peer { source, transfers, backlog, stuck: None, handle, carrier, is_broken, draining };
                peer.offer(self.slices.largest(), &self.export);
                self.peers.insert(peer.handle.id, peer);
            }
            LinkEvent::Frame(link, frame) => {
                let Some(peer) = self.peers.get_mut(&link) else { return };
                if frame.body == Body::Accept {
                    peer.accepted(&frame.payload);
                    return;
                }
                let Body::ToSource(message) = frame.body else {
                    tracing::warn!(link, "a decode worker sent a prefill worker's message; the link is closed");
                    self.drop_peer(link);
                    return;
                };
                for effect in peer.source.receive(frame.key, message) {
                    if effect == SourceEffect::Begin(frame.key) {
                        let asked = self.begin(link, frame.key, &frame.payload);
                        self.new.extend(asked);
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
        let Some(peer) = self.peers.remove(&link) else { return };
        if let (Carrier::Beside(carrier), false) = (peer.carrier, peer.draining.is_empty()) {
            self.retired.push((carrier, peer.draining.into_iter().map(|(_, transfer)| transfer).collect()));
        }
    }

    /// Frees what nobody reads any more. Says whether there was something.
    fn drain(&mut self) -> bool {
        let before = self.retired.len();
        self.retired.retain(|(carrier, _)| !carrier.is_left());
        let drained = self.peers.values_mut().map(Peer::drain).fold(false, |a, b| a | b);
        drained || self.retired.len() < before
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
                self.peers.get_mut(&link)?.transfers.insert(key, Transfer::new(cancelled));
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
        peer.let_go(key);
        for effect in peer.source.fail(key) {
            self.apply(link, effect, encode(why));
        }
    }

    /// Announces what `pages` finds computed of a sequence that goes to a link.
    fn announce(&mut self, seq: &Sequence, pages: impl FnOnce(&mut Transfer, &Slices) -> Vec<u32>) {
        let Outlet::Remote(outlet) = &seq.outlet else { return };
        let (link, key) = (outlet.link, outlet.key);
        let Some(peer) = self.peers.get_mut(&link) else { return };
        let Some(transfer) = peer.transfers.get_mut(&key) else { return };
        let pages = pages(transfer, &self.slices);
        for effect in peer.source.ready(key, pages, false) {
            self.apply(link, effect, Vec::new());
        }
    }

    fn apply(&mut self, link: u64, effect: SourceEffect, payload: Vec<u8>) {
        let Some(peer) = self.peers.get_mut(&link) else { return };
        match effect {
            SourceEffect::Begin(_) => {}
            SourceEffect::Send(key, message) => peer.backlog.push_back((key, message, payload)),
            SourceEffect::Release(key) => {
                self.flow.completed_total += 1;
                peer.let_go(key);
            }
            SourceEffect::Cancel(key) => {
                self.flow.aborted_total += 1;
                if let Some(transfer) = peer.transfers.get(&key) {
                    transfer.cancel();
                }
                peer.let_go(key);
            }
        }
    }

    /// Hears what has come, and sends what can be sent. Says whether anything was.
    fn exchange(&mut self, device: &dyn CacheReader) -> bool {
        let events: Vec<_> = self.listener.events.try_iter().collect();
        events.into_iter().for_each(|e| self.hear(e));
        self.take_notes();
        let mut moved = self.drain();
        for peer in self.peers.values_mut() {
            moved |= peer.flush(device, &self.slices, &mut self.flow);
        }
        moved
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

impl Drop for RemoteOut {
    /// The device goes after this: nobody may be reading it then. A sink lets go when it sees the end of its link.
    fn drop(&mut self) {
        let mut carriers: Vec<Box<dyn Carry>> = self.retired.drain(..).map(|(carrier, _)| carrier).collect();
        // Links end with their handles.
        carriers.extend(self.peers.drain().filter_map(|(_, peer)| match peer.carrier {
            Carrier::Beside(carrier) => Some(carrier),
            Carrier::Offered(offered) => offered.gpu(),
            Carrier::Frames => None,
        }));
        let end = Instant::now() + LEAVE;
        while carriers.iter().any(|c| !c.is_left()) {
            if Instant::now() > end {
                tracing::warn!("a decode worker still holds this device's memory, which goes");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Outbound for RemoteOut {
    fn progress(&mut self, sequence: &Prefilling) {
        self.announce(&sequence.seq, |transfer, slices| transfer.step_done(&sequence.table, slices));
    }

    fn layers_done(&mut self, sequence: &Prefilling, rows: usize, layers: u32) {
        let done = self.slices.complete(layers);
        self.announce(&sequence.seq, |transfer, slices| transfer.layers_done(sequence, rows, done, slices));
    }

    fn send(&mut self, device: &dyn CacheReader) {
        self.exchange(device);
    }

    fn offer(&mut self, sequence: Prefilled<Resident>, _: &dyn Executor) -> Option<Box<Prefilled<Resident>>> {
        let Outlet::Remote(outlet) = &sequence.seq.outlet else { return None };
        let (link, key) = (outlet.link, outlet.key);
        let peer = self.peers.get_mut(&link)?;
        let pages = peer.transfers.get_mut(&key)?.complete(sequence, &self.slices);
        for effect in peer.source.ready(key, pages, true) {
            self.apply(link, effect, Vec::new());
        }
        None
    }

    fn poll(&mut self, device: &dyn Executor) -> Polled {
        let moved = self.exchange(device);
        Polled { new: std::mem::take(&mut self.new), moved }
    }

    fn flow(&self) -> Flow {
        let rooms = self.peers.values().map(|p| p.source.len()).sum();
        let pages_in_flight = self.peers.values().map(|p| p.handle.pages_in_flight()).sum();
        Flow { rooms, pages_in_flight, ..self.flow }
    }

    fn held(&self) -> usize {
        let held = |p: &Peer| p.transfers.values().filter(|t| t.done().is_some()).count() + p.draining.len();
        let retired = self.retired.iter().map(|(_, transfers)| transfers.len());
        self.peers.values().map(held).chain(retired).sum()
    }
}
