//! How the bytes of pages travel beside the frames of a link, where both processes are on one machine.
//!
//! A page is in its frame unless both ends have agreed on a carrier: the source offers what it has when the link is made,
//! the sink accepts the first that it can use and says why not the others. Frames keep their order and their meaning; one
//! whose page is carried names the place instead of holding the bytes. Another carrier fits in the same place: with NIXL the
//! offer is an agent's metadata and a place says that a write is complete.

mod gpu;
mod ring;
mod shared;

use std::fmt::Debug;
use std::io;

use serde::{Deserialize, Serialize};

use crate::exec::{CacheReader, Executor};
use crate::kv::{BlockTable, Kv};
use crate::transfer::slices::{Slice, Slices};
use gpu::{GpuOffer, GpuReader, GpuWriter};
use ring::{RingOffer, RingReader, RingWriter};

/// The source's end.
pub(super) trait Carry: Debug {
    /// Whether another page fits now.
    ///
    /// # Errors
    /// The carrier is broken; pages go into frames from now on.
    fn has_room(&mut self) -> io::Result<bool>;
    /// Puts a page where the sink can get it, and says where that is.
    ///
    /// # Errors
    /// See [`Self::has_room`].
    fn put(&mut self, block: u32, slice: &Slice, device: &dyn CacheReader) -> io::Result<Vec<u8>>;
    /// Where the sink reads blocks themselves: the number of pages put so far. A block must stay as it is until
    /// [`Self::drained`] has come to its number, or the sink [`is gone`](Self::is_left).
    fn pinned(&self) -> Option<u64> {
        None
    }
    /// Pages that the sink has done with.
    fn drained(&self) -> u64 {
        u64::MAX
    }
    /// Whether the sink can't read any more: it let go, or its process ended.
    fn is_left(&self) -> bool {
        true
    }
}

/// The sink's end. Pages are taken in the order in which they were put, wanted or not.
pub(super) trait Fetch: Debug {
    /// Takes the page at a place, to where it is wanted, if it is.
    ///
    /// # Errors
    /// There is none, or it is not what was put there.
    fn take(&mut self, place: &[u8], target: Option<Target<'_, '_>>) -> io::Result<()>;
    /// Whether pages that were taken are still on their way; after [`Kv::settle`] they are not, and [`Self::settled`] is called.
    fn is_settling(&self) -> bool {
        false
    }
    /// What was taken has arrived: the source may have its blocks back.
    ///
    /// # Errors
    /// The source can't be told.
    fn settled(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a page is wanted.
pub(super) struct Target<'a, 'k> {
    pub(super) table: &'a BlockTable,
    /// The block's place in the table.
    pub(super) block: usize,
    pub(super) slice: &'a Slice,
    pub(super) kv: &'a mut Kv<'k>,
}

impl Target<'_, '_> {
    /// Writes the page's bytes.
    ///
    /// # Errors
    /// They are too many or too few.
    pub(super) fn write(self, bytes: &[u8]) -> io::Result<()> {
        let written = self.kv.write_pools(self.table, self.block, self.slice.pools.clone(), bytes);
        written.then_some(()).ok_or_else(|| io::Error::other("the page has the wrong size"))
    }
}

/// A page's bytes.
pub(super) fn read_page(block: u32, slice: &Slice, device: &dyn CacheReader) -> Vec<u8> {
    let mut bytes = vec![0; slice.bytes];
    device.read_pools(block, slice.pools.clone(), &mut bytes);
    bytes
}

/// What a source has to offer, best first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Offer {
    gpu: Option<GpuOffer>,
    ring: Option<RingOffer>,
}

/// A sink's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    by: Way,
    /// Why not in a better way.
    why: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    Gpu,
    Ring,
    Frames,
}

/// The source's carriers between offer and answer.
#[derive(Debug)]
pub(super) struct Offered {
    gpu: Option<GpuWriter>,
    ring: Option<RingWriter>,
}

/// What [`Executor::export`] gave for the links of a source, or why there is nothing.
pub(crate) type Export = Result<Vec<u8>, String>;

/// Exports a device once, for all links.
pub(crate) fn export(device: &mut dyn Executor) -> Export {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(|e| e.to_string())?;
    device.export(nonce).map_err(|e| e.to_string())
}

impl Offered {
    /// What there is for a new link, and what the sink is told of it.
    pub(super) fn new(page: usize, export: &Export) -> (Self, Vec<u8>) {
        let kept = |what: &str, error: io::Error| tracing::debug!(%error, "no {what} for pages");
        let gpu = export.as_ref().ok().map(|_| GpuWriter::create());
        let gpu = gpu.and_then(|made| made.map_err(|e| kept("peer copies", e)).ok());
        let ring = RingWriter::create(page).map_err(|e| kept("shared memory", e)).ok();
        let device = gpu.as_ref().zip(export.as_ref().ok()).map(|(writer, export)| writer.offer(export));
        let offer = Offer { gpu: device, ring: ring.as_ref().map(RingWriter::offer) };
        // The type always serializes.
        (Self { gpu, ring }, serde_json::to_vec(&offer).unwrap_or_default())
    }

    /// What a sink may have opened that has not answered.
    pub(super) fn gpu(self) -> Option<Box<dyn Carry>> {
        self.gpu.map(|c| Box::new(c) as Box<dyn Carry>)
    }

    /// What the sink has chosen.
    pub(super) fn chosen(self, answer: &[u8]) -> Option<Box<dyn Carry>> {
        let answer: Answer = serde_json::from_slice(answer).ok()?;
        answer.log("a decode worker takes pages");
        match answer.by {
            Way::Gpu => self.gpu.map(|mut c| {
                c.unname();
                Box::new(c) as Box<dyn Carry>
            }),
            Way::Ring => self.ring.map(|mut c| {
                c.unname();
                Box::new(c) as Box<dyn Carry>
            }),
            Way::Frames => None,
        }
    }
}

impl Answer {
    fn log(&self, what: &str) {
        let by = match self.by {
            Way::Gpu => "by copies from GPU to GPU",
            Way::Ring => "through shared memory",
            Way::Frames => "over TCP",
        };
        if self.why.is_empty() {
            tracing::info!("{what} {by}");
        } else {
            tracing::info!(why = %self.why.join("; "), "{what} {by}");
        }
    }
}

/// The sink's choice, and what the source is told. `broken` says why peer copies are not tried again.
pub(super) fn choose(offer: &[u8], kv: &mut Kv<'_>, broken: Option<&str>) -> (Option<Box<dyn Fetch>>, Vec<u8>) {
    let offer: Offer = serde_json::from_slice(offer).unwrap_or_default();
    let mut why = Vec::new();
    let gpu = offer.gpu.as_ref().and_then(|gpu| {
        let opened = broken.map_or_else(|| GpuReader::open(gpu, kv.device()), |why| Err(io::Error::other(why)));
        opened.map_err(|e| why.push(format!("no copies from GPU to GPU: {e}"))).ok()
    });
    let (carrier, by): (Option<Box<dyn Fetch>>, Way) = match (gpu, &offer.ring) {
        (Some(gpu), _) => (Some(Box::new(gpu)), Way::Gpu),
        (None, Some(ring)) => match RingReader::open(ring, Slices::of(kv.device().cache()).largest()) {
            Ok(ring) => (Some(Box::new(ring)), Way::Ring),
            Err(error) => {
                why.push(format!("no shared memory: {error}"));
                (None, Way::Frames)
            }
        },
        (None, None) => (None, Way::Frames),
    };
    let answer = Answer { by, why };
    answer.log("pages come");
    (carrier, serde_json::to_vec(&answer).unwrap_or_default())
}
