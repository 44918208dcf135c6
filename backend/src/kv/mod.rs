//! KV memory of one worker: paged blocks, their owners, the prefix cache, and the sequences' state slots.
//!
//! Everything here belongs to the worker's thread (`Rc`, so the compiler holds us to it). Sizes come from
//! [`CacheSpec`](crate::exec::CacheSpec) alone: a block id names the same block in every pool, so pools of a layer can
//! not complete apart.

mod block;
mod hash;
mod pool;
mod slot;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use slot::Slot;
pub(crate) use table::BlockTable;

use hash::Chain;
use pool::{Counts, Pool};
use slot::Slots;

use crate::exec::{CacheSpec, Capacity};

/// The blocks and slots of one device.
#[derive(Debug)]
pub(crate) struct Memory {
    pool: Pool,
    slots: Slots,
    block_tokens: usize,
    reuse: bool,
}

impl Memory {
    /// Memory for a device. Prefixes are reused only for architectures whose whole past lies in blocks: a state slot
    /// is not addressed by token, so a matched block says nothing about it.
    pub(crate) fn new(spec: &CacheSpec, capacity: Capacity, max_seqs: usize, reuse: bool) -> Self {
        Self {
            pool: Pool::new(capacity.blocks),
            slots: Slots::new(capacity.sequences.min(u32::try_from(max_seqs).unwrap_or(u32::MAX))),
            block_tokens: spec.block_tokens as usize,
            reuse: reuse && spec.states.is_empty(),
        }
    }

    /// A table that begins with every block already computed for the front of `tokens`. At least one token is left to
    /// compute, because the next token is drawn from its row.
    pub(crate) fn match_prefix(&self, tokens: &[u32], salt: Option<u64>) -> BlockTable {
        let mut table = BlockTable::new(self.block_tokens, Chain::new(salt), self.reuse);
        if self.reuse {
            table.match_prefix(&self.pool, &tokens[..tokens.len().saturating_sub(1)]);
        }
        table
    }

    /// A table for the first `filled` of `tokens`, whose blocks `write` fills from elsewhere: it is called with the
    /// number and the id of each block and must write every pool of it. Nothing is readable before all are written.
    pub(crate) fn load(&self, tokens: &[u32], filled: usize, mut write: impl FnMut(usize, u32)) -> Option<BlockTable> {
        let mut table = BlockTable::new(self.block_tokens, Chain::new(None), false);
        if !table.grow(&self.pool, filled) {
            return None;
        }
        table.readable().ids(filled).enumerate().for_each(|(i, id)| write(i, id));
        table.advance(tokens, filled);
        Some(table)
    }

    /// Grows a table to cover `tokens` tokens; takes nothing if there are not enough blocks.
    #[must_use]
    pub(crate) fn grow(&self, table: &mut BlockTable, tokens: usize) -> bool {
        table.grow(&self.pool, tokens)
    }

    /// Blocks needed for `tokens` tokens.
    pub(crate) fn blocks_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.block_tokens)
    }

    /// A free slot.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slots.take()
    }

    /// Blocks that could be allocated now: free ones and cached ones nobody holds.
    pub(crate) fn available(&self) -> usize {
        let c = self.pool.counts();
        c.free + c.cached
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
}
