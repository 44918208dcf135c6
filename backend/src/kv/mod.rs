//! KV memory of one worker: paged blocks, their owners, the prefix cache and its host tier, and state slots.
//!
//! Everything here belongs to the worker's thread (`Rc`, so the compiler holds us to it). Sizes come from
//! [`CacheSpec`](crate::exec::CacheSpec) alone: a block id names the same block in every pool, so pools of a layer can
//! not complete apart.

mod block;
mod checks;
mod hash;
mod host;
mod pool;
mod slot;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use slot::Slot;
pub(crate) use table::BlockTable;

use std::ops::Range;
use std::rc::Rc;

use crate::exec::{CacheSpec, Capacity, ExecError, Executor, PeerPools};
use block::Filling;
pub(crate) use block::Ready;
use checks::{Changed, Checks};
use hash::{BlockHash, Chain};
use host::HostTier;
use pool::{Counts, Pool};
use slot::Slots;

/// The blocks and slots of one device, and the host memory behind it.
#[derive(Debug)]
pub(crate) struct Memory {
    pool: Pool,
    slots: Slots,
    host: HostTier,
    block_tokens: usize,
    block_bytes: usize,
    reuse: bool,
    loaded: u64,
    checks: Option<Checks>,
    /// The first block that was found changed.
    changed: Option<Changed>,
}

/// What a worker's memory is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemorySize {
    /// The device.
    pub(crate) capacity: Capacity,
    /// Most sequences at once.
    pub(crate) max_seqs: usize,
    /// Whether prefixes are reused.
    pub(crate) reuse: bool,
    /// Bytes of the host tier.
    pub(crate) host_bytes: usize,
    /// Whether complete blocks are checked.
    pub(crate) checksums: bool,
}

impl Memory {
    /// Memory for a device. Prefixes are reused only for architectures whose whole past lies in blocks: a state slot
    /// is not addressed by token, so a matched block says nothing about it.
    pub(crate) fn new(spec: &CacheSpec, size: MemorySize) -> Self {
        let max_seqs = u32::try_from(size.max_seqs).unwrap_or(u32::MAX);
        let reuse = size.reuse && spec.states.is_empty();
        let host_blocks = if reuse { size.host_bytes / spec.block_bytes().max(1) } else { 0 };
        Self {
            pool: Pool::new(size.capacity.blocks, size.checksums),
            slots: Slots::new(size.capacity.sequences.min(max_seqs)),
            host: HostTier::new(host_blocks),
            block_tokens: spec.block_tokens as usize,
            block_bytes: spec.block_bytes(),
            reuse,
            loaded: 0,
            checks: size.checksums.then(|| Checks::new(spec.block_bytes())),
            changed: None,
        }
    }

    /// The memory together with the device it is on, which is needed to copy blocks to and from the host tier.
    pub(crate) fn on<'a>(&'a mut self, device: &'a mut dyn Executor) -> Kv<'a> {
        Kv { memory: self, device }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.pool.counts()
    }

    pub(crate) fn slots_used(&self) -> usize {
        self.slots.used()
    }

    pub(crate) fn slots_total(&self) -> usize {
        self.slots.total()
    }

    /// Blocks in the host tier now.
    pub(crate) fn host_blocks(&self) -> usize {
        self.host.len()
    }

    /// Blocks brought back from the host tier so far.
    pub(crate) fn loaded(&self) -> u64 {
        self.loaded
    }
}

/// KV memory on its device.
pub(crate) struct Kv<'a> {
    memory: &'a mut Memory,
    device: &'a mut dyn Executor,
}

impl Kv<'_> {
    /// The device.
    pub(crate) fn device(&mut self) -> &mut dyn Executor {
        &mut *self.device
    }

    /// Takes the checksums of the blocks that the last step completed. Nothing may have been allocated since.
    pub(crate) fn seal(&mut self) {
        if let Some(checks) = &mut self.memory.checks {
            self.memory.pool.take_completed().into_iter().for_each(|id| checks.seal(&*self.device, id));
        }
    }

    /// Compares the complete ones among these blocks, which are about to be read, with their checksums.
    pub(crate) fn check(&mut self, blocks: impl IntoIterator<Item = u32>) -> Result<(), Changed> {
        if let Some(changed) = self.memory.changed {
            return Err(changed);
        }
        let Some(checks) = &mut self.memory.checks else { return Ok(()) };
        let mut blocks: Vec<u32> = blocks.into_iter().collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.into_iter().try_for_each(|id| checks.check(&*self.device, id))
    }

    /// Like [`Self::check`] for blocks that leave the device; what is found is told at the next check.
    pub(crate) fn check_out(&mut self, table: &BlockTable) {
        let readable = table.readable();
        let found = self.check(readable.ids(readable.tokens()));
        self.memory.changed = self.memory.changed.or(found.err());
    }

    /// A table that begins with every block already computed for the front of `tokens`. At least one token is left to
    /// compute, because the next token is drawn from its row.
    pub(crate) fn match_prefix(&mut self, tokens: &[u32], salt: Option<u64>) -> BlockTable {
        let mut table = BlockTable::new(self.memory.block_tokens, Chain::new(salt), self.memory.reuse);
        if self.memory.reuse {
            table.match_prefix(&tokens[..tokens.len().saturating_sub(1)], |hash| self.find(hash));
        }
        table
    }

    /// Grows a table to cover `tokens` tokens; takes nothing if there are not enough blocks.
    #[must_use]
    pub(crate) fn grow(&mut self, table: &mut BlockTable, tokens: usize) -> bool {
        table.grow(tokens, || self.allocate())
    }

    /// A table for the first `filled` of `tokens`, whose blocks `bytes` supplies from elsewhere, every pool of a block
    /// at once. Nothing is readable before all are written.
    pub(crate) fn load(&mut self, tokens: &[u32], filled: usize, blocks: &[Box<[u8]>]) -> Option<BlockTable> {
        let mut table = self.empty_table();
        if !self.grow(&mut table, filled) {
            return None;
        }
        table.readable().ids(filled).zip(blocks).for_each(|(id, bytes)| self.device.write_block(id, bytes));
        table.advance(tokens, filled);
        self.seal();
        Some(table)
    }

    /// A table without blocks, for pages that come from elsewhere.
    pub(crate) fn empty_table(&self) -> BlockTable {
        BlockTable::new(self.memory.block_tokens, Chain::new(None), false)
    }

    /// Writes some pools of one block of a table. False if there is no such block or the size is wrong.
    pub(crate) fn write_pools(&mut self, table: &BlockTable, index: usize, pools: Range<usize>, bytes: &[u8]) -> bool {
        let fits = bytes.len() == self.device.cache().pool_bytes(pools.clone());
        match self.block(table, index).filter(|_| fits) {
            Some(id) => {
                self.device.write_pools(id, pools, bytes);
                true
            }
            None => false,
        }
    }

    /// Starts to copy some pools of one block of another device into one of a table; they are here after [`Self::settle`].
    pub(crate) fn pull_pools(
        &mut self,
        (table, index): (&BlockTable, usize),
        pools: Range<usize>,
        from: &PeerPools,
        theirs: u32,
    ) -> Result<(), ExecError> {
        let id = self.block(table, index);
        let id = id.ok_or_else(|| ExecError::Device(format!("no block {index} was reserved")))?;
        self.device.pull_pools(from, (theirs, id), pools)
    }

    /// The block at this place of a table, complete or not.
    fn block(&self, table: &BlockTable, index: usize) -> Option<u32> {
        table.readable().ids(table.len() * self.memory.block_tokens).nth(index)
    }

    /// Waits for what was pulled.
    pub(crate) fn settle(&mut self) -> Result<(), ExecError> {
        self.device.settle()
    }

    /// Like [`Self::load`], from blocks of another device. None if there is not enough memory.
    pub(crate) fn pull(
        &mut self,
        tokens: &[u32],
        filled: usize,
        from: &PeerPools,
        blocks: &[u32],
    ) -> Result<Option<BlockTable>, ExecError> {
        let mut table = self.empty_table();
        if !self.grow(&mut table, filled) {
            return Ok(None);
        }
        let pools = 0..self.device.cache().pools.len();
        let pull = |(index, &theirs)| self.pull_pools((&table, index), pools.clone(), from, theirs);
        let started = blocks.iter().enumerate().try_for_each(pull);
        // Whatever was started ends before the table may go.
        let ended = self.settle();
        started.and(ended)?;
        table.advance(tokens, filled);
        self.seal();
        Ok(Some(table))
    }

    /// A free slot, cleared.
    pub(crate) fn slot(&mut self) -> Option<Slot> {
        let slot = self.memory.slots.take()?;
        self.device.reset_slot(slot.id());
        Some(slot)
    }

    /// Writes the state of a slot. False if the size is wrong.
    pub(crate) fn write_state(&mut self, slot: &Slot, state: &[u8]) -> bool {
        let fits = state.len() == self.device.model().cache.state_bytes();
        if fits {
            self.device.write_state(slot.id(), state);
        }
        fits
    }

    /// Whether a token is in the model's vocabulary.
    pub(crate) fn knows(&self, token: u32) -> bool {
        token < self.device.model().vocab_size
    }

    /// Blocks needed for `tokens` tokens.
    pub(crate) fn blocks_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.memory.block_tokens)
    }

    /// Blocks that could be allocated now: free ones and cached ones nobody holds.
    pub(crate) fn available(&self) -> usize {
        let c = self.memory.pool.counts();
        c.free + c.cached
    }

    /// The block with this content: on the device, or brought back from the host tier. A block that is being brought
    /// back cannot be found by anyone else before it is complete, since only completing it publishes it.
    fn find(&mut self, hash: BlockHash) -> Option<Ready> {
        if let Some(ready) = self.memory.pool.find(hash) {
            return Some(ready);
        }
        let bytes = self.memory.host.get(hash)?;
        let block = self.allocate()?;
        self.device.write_block(block.id(), &bytes);
        self.memory.loaded += 1;
        let ready = block.complete(Some(hash));
        self.seal();
        Some(ready)
    }

    /// A block to write. If a cached one is evicted for it, its content goes to the host tier first.
    fn allocate(&mut self) -> Option<Filling> {
        let (block, evicted) = self.memory.pool.allocate()?;
        if let Some(checks) = &mut self.memory.checks {
            if evicted.is_some() && self.memory.changed.is_none() {
                self.memory.changed = checks.check(&*self.device, block.id()).err();
            }
            checks.forget(block.id());
        }
        if let Some(hash) = evicted.filter(|h| self.memory.host.wants(*h)) {
            let mut bytes = vec![0; self.memory.block_bytes];
            self.device.read_block(block.id(), &mut bytes);
            self.memory.host.insert(hash, Rc::from(bytes));
        }
        Some(block)
    }
}
