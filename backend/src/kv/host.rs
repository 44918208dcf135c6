//! The host tier: content of blocks that the device had no room for, in host memory, least recently used first out.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::hash::BlockHash;

#[derive(Debug)]
struct Entry {
    bytes: Rc<[u8]>,
    used: u64,
}

/// Blocks by content. Entries are complete when they are inserted: a block is copied out as a whole.
#[derive(Debug, Default)]
pub(super) struct HostTier {
    entries: HashMap<BlockHash, Entry>,
    /// Hashes by last use.
    order: BTreeMap<u64, BlockHash>,
    clock: u64,
    capacity: usize,
}

impl HostTier {
    /// A tier of this many blocks.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether this content should be copied out: there is a tier and it has not got it.
    pub(super) fn wants(&self, hash: BlockHash) -> bool {
        self.capacity > 0 && !self.entries.contains_key(&hash)
    }

    /// Keeps a block's content.
    pub(super) fn insert(&mut self, hash: BlockHash, bytes: Rc<[u8]>) {
        while self.entries.len() >= self.capacity {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.entries.remove(&oldest);
        }
        self.clock += 1;
        self.order.insert(self.clock, hash);
        self.entries.insert(hash, Entry { bytes, used: self.clock });
    }

    /// A block's content, which stays here: the device may evict the block again at no cost.
    pub(super) fn get(&mut self, hash: BlockHash) -> Option<Rc<[u8]>> {
        let entry = self.entries.get_mut(&hash)?;
        self.clock += 1;
        self.order.remove(&entry.used);
        self.order.insert(self.clock, hash);
        entry.used = self.clock;
        Some(Rc::clone(&entry.bytes))
    }
}
