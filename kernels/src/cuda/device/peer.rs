//! Pools that another GPU reads: in this process by their addresses, in another of this machine through CUDA's IPC handles.

use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::{CudaContext, result, sys};

use super::driver::failed;
use super::memory::Buffer;
use super::{Cuda, UnitMemory};
use crate::cuda::call::Address;
use crate::ops::{DeviceError, Pool};
use crate::peer::{PeerOps, PeerPools};

/// Bytes of a handle.
const HANDLE: usize = 64;
const NONCE: usize = 16;
/// Memory that is shown to others comes in multiples of this. The driver cuts smaller allocations out of blocks of this size, and a
/// handle is of a whole block: others would see what lies beside it.
pub(super) const SHARED: usize = 2 << 20;
/// Most pools that are believed of an export.
const MOST_POOLS: usize = 1 << 16;

/// A device's pools, as long as somebody reads them.
#[derive(Debug)]
pub(super) struct Exported {
    nonce: [u8; NONCE],
    /// The nonce, where a reader in another process can see it.
    _stamp: Buffer,
    pools: Vec<Arc<Buffer>>,
    context: Arc<CudaContext>,
}

/// This process's exports: CUDA opens handles of other processes only.
static HERE: Mutex<Vec<Weak<Exported>>> = Mutex::new(Vec::new());

/// A pool: bytes of a block, blocks, the handle of its memory.
struct Listed {
    unit: u64,
    blocks: u64,
    handle: [u8; HANDLE],
}

/// What an export says.
struct Listing {
    nonce: [u8; NONCE],
    stamp: [u8; HANDLE],
    pools: Vec<Listed>,
}

impl Listing {
    fn bytes(&self) -> Vec<u8> {
        let mut out = [&self.nonce[..], &self.stamp].concat();
        for pool in &self.pools {
            out.extend(pool.unit.to_le_bytes());
            out.extend(pool.blocks.to_le_bytes());
            out.extend(pool.handle);
        }
        out
    }

    fn parse(mut from: &[u8]) -> Option<Self> {
        let nonce = *from.split_off(..NONCE)?.first_chunk()?;
        let stamp = *from.split_off(..HANDLE)?.first_chunk()?;
        let mut pools = Vec::new();
        while !from.is_empty() && pools.len() < MOST_POOLS {
            let unit = u64::from_le_bytes(*from.split_off(..8)?.first_chunk()?);
            let blocks = u64::from_le_bytes(*from.split_off(..8)?.first_chunk()?);
            pools.push(Listed { unit, blocks, handle: *from.split_off(..HANDLE)?.first_chunk()? });
        }
        Some(Self { nonce, stamp, pools })
    }
}

/// Another device's memory in this process.
#[derive(Debug)]
struct Opened {
    context: Arc<CudaContext>,
    at: u64,
}

impl Opened {
    fn new(context: &Arc<CudaContext>, handle: [u8; HANDLE]) -> Result<Self, DeviceError> {
        context.bind_to_thread().map_err(failed("using the context"))?;
        let handle = sys::CUipcMemHandle { reserved: handle.map(|b| b as std::ffi::c_char) };
        let lazily = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut at = 0;
        // SAFETY: the driver checks the handle; the address is closed once, when this value is dropped.
        let opened = unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut at, handle, lazily) };
        opened.result().map_err(failed("opening another process's memory"))?;
        Ok(Self { context: Arc::clone(context), at })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Copies from it may still be on their way.
        if self.context.synchronize().is_ok() && self.context.bind_to_thread().is_ok() {
            // SAFETY: opened by `new`, closed once.
            let _ = unsafe { sys::cuIpcCloseMemHandle(self.at) };
        }
    }
}

fn handle_of(buffer: &Buffer) -> Result<[u8; HANDLE], DeviceError> {
    let mut handle = MaybeUninit::<sys::CUipcMemHandle>::uninit();
    // SAFETY: the address is the start of an allocation of `cuMemAlloc`, which is alive.
    let made = unsafe { sys::cuIpcGetMemHandle(handle.as_mut_ptr(), buffer.at().0) };
    made.result().map_err(failed("exporting memory to other processes"))?;
    // SAFETY: the driver has filled it in.
    Ok(unsafe { handle.assume_init() }.reserved.map(|c| c as u8))
}

/// What keeps reached pools readable.
#[derive(Debug)]
enum Hold {
    /// They are of this process.
    Here(Arc<Exported>),
    /// They are of another.
    There(Vec<Opened>),
}

/// Pools that this device can read, by number.
#[derive(Debug)]
struct Reached {
    hold: Hold,
    blocks: Vec<u64>,
}

impl Reached {
    fn at(&self, pool: usize) -> Option<Address> {
        match &self.hold {
            Hold::Here(exported) => exported.pools.get(pool).map(|b| b.at()),
            Hold::There(opened) => opened.get(pool).map(|o| Address(o.at)),
        }
    }
}

impl Cuda {
    fn fits(&self, listing: &Listing) -> bool {
        let same = |(mine, theirs): (&UnitMemory, &Listed)| mine.unit as u64 == theirs.unit;
        listing.pools.len() == self.pools.len() && self.pools.iter().zip(&listing.pools).all(same)
    }

    fn open(&self, listing: &Listing) -> Result<Vec<Opened>, DeviceError> {
        let stamp = Opened::new(&self.context, listing.stamp)?;
        let mut seen = [0; NONCE];
        self.stream.download(Address(stamp.at), &mut seen)?;
        if seen != listing.nonce {
            return Err(DeviceError("the memory behind the other process's handles is not what it exported".into()));
        }
        listing.pools.iter().map(|pool| Opened::new(&self.context, pool.handle)).collect()
    }
}

impl PeerOps for Cuda {
    fn export(&mut self, nonce: [u8; 16]) -> Result<Vec<u8>, DeviceError> {
        self.stream.finish()?;
        let mut stamp = nonce.to_vec();
        stamp.resize(SHARED, 0);
        let stamp = Buffer::of(&self.context, &stamp)?;
        let blocks = self.limits.blocks as u64;
        let listed = |p: &UnitMemory| -> Result<Listed, DeviceError> {
            Ok(Listed { unit: p.unit as u64, blocks, handle: handle_of(&p.memory)? })
        };
        let pools = self.pools.iter().map(listed).collect::<Result<_, _>>()?;
        let listing = Listing { nonce, stamp: handle_of(&stamp)?, pools };
        let pools = self.pools.iter().map(|p| Arc::clone(&p.memory)).collect();
        let exported = Arc::new(Exported { nonce, _stamp: stamp, pools, context: Arc::clone(&self.context) });
        let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
        here.retain(|known| known.strong_count() > 0);
        here.push(Arc::downgrade(&exported));
        self.exports.push(exported);
        Ok(listing.bytes())
    }

    fn reach(&mut self, export: &[u8]) -> Result<PeerPools, DeviceError> {
        let listing = Listing::parse(export).filter(|l| self.fits(l));
        let listing = listing.ok_or_else(|| DeviceError("the other device has other pools".into()))?;
        let here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
        let found = here.iter().filter_map(Weak::upgrade).find(|e| e.nonce == listing.nonce);
        drop(here);
        let hold = found.map_or_else(|| self.open(&listing).map(Hold::There), |exported| Ok(Hold::Here(exported)))?;
        Ok(PeerPools::new(Reached { hold, blocks: listing.pools.iter().map(|p| p.blocks).collect() }))
    }

    fn pull_block(&mut self, from: &PeerPools, pool: Pool, theirs: u32, mine: u32) -> Result<(), DeviceError> {
        let number = pool.0 as usize;
        let reached = from.get::<Reached>();
        let there = reached.filter(|r| r.blocks.get(number).is_some_and(|&blocks| u64::from(theirs) < blocks));
        let Some((reached, start)) = there.and_then(|r| r.at(number).map(|at| (r, at))) else {
            return Err(DeviceError(format!("the other device has no block {theirs} in pool {number}")));
        };
        let to = &self.pools[number];
        let (source, target) = (start.plus(theirs as usize * to.unit), to.at(mine));
        match &reached.hold {
            Hold::There(_) => self.stream.copy(source, target, to.unit),
            Hold::Here(exported) => {
                self.stream.bind()?;
                let (mine, theirs) = (self.context.cu_ctx(), exported.context.cu_ctx());
                // SAFETY: both blocks are inside of pools that are alive, here and, held by `exported`, there.
                unsafe { result::memcpy_peer_async(mine, target.0, theirs, source.0, to.unit, self.stream.handle()) }
                    .map_err(failed("copying from another GPU"))
            }
        }
    }

    fn settle(&mut self) -> Result<(), DeviceError> {
        self.stream.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read_as_written_and_never_half() {
        let pools = vec![
            Listed { unit: 3, blocks: 5, handle: [7; HANDLE] },
            Listed { unit: 1, blocks: 2, handle: [9; HANDLE] },
        ];
        let bytes = Listing { nonce: [1; NONCE], stamp: [2; HANDLE], pools }.bytes();
        assert_eq!(Listing::parse(&bytes).unwrap().bytes(), bytes);
        let whole = [NONCE + HANDLE, NONCE + HANDLE + 80, bytes.len()];
        for cut in 0..bytes.len() {
            assert_eq!(Listing::parse(&bytes[..cut]).is_some(), whole.contains(&cut), "{cut}");
        }
    }
}
