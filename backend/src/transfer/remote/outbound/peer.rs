//! One decode worker as a prefill worker sees it: its transfers, what waits to be sent, how pages travel.

use std::collections::{HashMap, VecDeque};

use super::sending::Transfer;
use crate::exec::CacheReader;
use crate::sequence::{Prefilled, Resident};
use crate::transfer::Flow;
use crate::transfer::protocol::{Key, Source, ToSink};
use crate::transfer::remote::carrier::{Carry, Export, Offered, read_page};
use crate::transfer::remote::frame::{Body, Frame};
use crate::transfer::remote::job::{First, encode};
use crate::transfer::remote::link::LinkHandle;
use crate::transfer::slices::Slices;

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) handle: LinkHandle,
    pub(super) source: Source,
    pub(super) transfers: HashMap<Key, Transfer>,
    /// What is to be sent, with the payload of `Closed`; pages are read when it is their turn.
    pub(super) backlog: VecDeque<(Key, ToSink, Vec<u8>)>,
    /// A frame that the link had no room for.
    pub(super) stuck: Option<Box<Frame>>,
    pub(super) carrier: Carrier,
    /// Whether the carrier failed; it is kept for the pages that are still in it.
    pub(super) is_broken: bool,
    /// Transfers that have ended and whose blocks may still be read, by their last page.
    pub(super) draining: Vec<(u64, Transfer)>,
}

/// How pages travel on a link.
#[derive(Debug)]
pub(super) enum Carrier {
    /// In their frames.
    Frames,
    /// The sink was offered what there is.
    Offered(Offered),
    /// Beside their frames.
    Beside(Box<dyn Carry>),
}

impl Peer {
    /// Offers what there is beside frames; a sink on another machine will not find it.
    pub(super) fn offer(&mut self, page: usize, export: &Export) {
        let (offered, offer) = Offered::new(page, export);
        if self.handle.send(Frame::of_link(Body::Offer, offer)).is_ok() {
            self.carrier = Carrier::Offered(offered);
        }
    }

    pub(super) fn accepted(&mut self, answer: &[u8]) {
        if let Carrier::Offered(offered) = std::mem::replace(&mut self.carrier, Carrier::Frames) {
            self.carrier = offered.chosen(answer).map_or(Carrier::Frames, Carrier::Beside);
        }
    }

    /// Ends a transfer here. Its blocks are freed when the sink has done with the pages that it copies from them.
    pub(super) fn let_go(&mut self, key: Key) {
        let Some(transfer) = self.transfers.remove(&key) else { return };
        if let Some(last) = transfer.pinned {
            self.draining.push((last, transfer));
            self.drain();
        }
    }

    /// See [`RemoteOut::drain`].
    pub(super) fn drain(&mut self) -> bool {
        let Carrier::Beside(carrier) = &self.carrier else { return false };
        if self.draining.is_empty() {
            return false;
        }
        let (before, drained) = (self.draining.len(), carrier.drained());
        self.draining.retain(|(last, _)| *last > drained);
        self.draining.len() < before
    }

    /// The frame of a page; none while there is no room for it.
    fn carry(&mut self, key: Key, page: u32, slices: &Slices, device: &dyn CacheReader) -> Option<Frame> {
        let (block, slice) = slices.place(page);
        let block = self.transfers.get(&key)?.block(block)?;
        let body = Body::ToSink(ToSink::Page(page));
        if let (Carrier::Beside(carrier), false) = (&mut self.carrier, self.is_broken) {
            let placed = carrier.has_room().and_then(|room| {
                let put = || carrier.put(block, slice, device);
                room.then(put).transpose()
            });
            match placed {
                Ok(Some(place)) => {
                    let pinned = carrier.pinned();
                    if let Some(transfer) = self.transfers.get_mut(&key) {
                        transfer.pinned = pinned.or(transfer.pinned);
                    }
                    return Some(Frame { carried: true, ..Frame::new(key, body, place) });
                }
                Ok(None) => {
                    self.backlog.push_front((key, ToSink::Page(page), Vec::new()));
                    return None;
                }
                Err(error) => {
                    tracing::warn!(%error, "shared memory is broken; pages travel in frames");
                    self.is_broken = true;
                }
            }
        }
        Some(Frame::new(key, body, read_page(block, slice, device)))
    }

    /// Sends while the link has room. Says whether anything was sent.
    pub(super) fn flush(&mut self, device: &dyn CacheReader, slices: &Slices, flow: &mut Flow) -> bool {
        let mut sent = false;
        loop {
            let next = self.stuck.take().map(|f| *f).or_else(|| self.next_frame(slices, device));
            let Some(frame) = next else { return sent };
            let bytes = frame.page().map(|page| slices.place(page).1.bytes as u64);
            if let Err(frame) = self.handle.send(frame) {
                self.stuck = Some(frame);
                return sent;
            }
            flow.pages_total += u64::from(bytes.is_some());
            flow.bytes_total += bytes.unwrap_or(0);
            sent = true;
        }
    }

    fn next_frame(&mut self, slices: &Slices, device: &dyn CacheReader) -> Option<Frame> {
        while let Some((key, message, payload)) = self.backlog.pop_front() {
            let payload = match message {
                ToSink::Started | ToSink::Closed => Some(payload),
                ToSink::Page(page) if self.has(key, page, slices) => return self.carry(key, page, slices, device),
                ToSink::Page(_) => None,
                ToSink::Finish => self.done(key).map(|p| encode(&first(p, device))),
            };
            // What was cancelled since then is not sent.
            if let Some(payload) = payload {
                return Some(Frame::new(key, Body::ToSink(message), payload));
            }
        }
        None
    }

    /// Whether there is a page that was announced: a cancelled sequence has none.
    fn has(&self, key: Key, page: u32, slices: &Slices) -> bool {
        self.transfers.get(&key).is_some_and(|t| t.block(slices.place(page).0).is_some())
    }

    fn done(&self, key: Key) -> Option<&Prefilled<Resident>> {
        self.transfers.get(&key)?.done()
    }
}

fn first(sequence: &Prefilled<Resident>, device: &dyn CacheReader) -> First {
    let mut state = vec![0; device.cache().state_bytes()];
    device.read_state(sequence.kv.slot.id(), &mut state);
    First::new(&sequence.first, sequence.seq.cached.unwrap_or(0), state)
}
