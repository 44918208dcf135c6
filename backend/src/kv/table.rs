//! The block table of one sequence: reused blocks, completed ones, and those being filled.

use super::block::{Filling, Ready};
use super::hash::{BlockHash, Chain};

#[derive(Debug)]
enum Entry {
    Ready(Ready),
    Filling(Filling),
}

impl Entry {
    fn id(&self) -> u32 {
        match self {
            Self::Ready(b) => b.id(),
            Self::Filling(b) => b.id(),
        }
    }
}

/// The blocks of one sequence in order, and how many tokens they hold.
#[derive(Debug)]
pub(crate) struct BlockTable {
    entries: Vec<Entry>,
    filled: usize,
    block_tokens: usize,
    chain: Chain,
    publish: bool,
}

/// Proof that the first `tokens` tokens of a table lie complete in every pool. The only way from a table to block ids.
#[derive(Debug)]
pub(crate) struct Readable<'a> {
    table: &'a BlockTable,
}

impl Readable<'_> {
    /// Tokens that may be read.
    pub(crate) fn tokens(&self) -> usize {
        self.table.filled
    }

    /// Ids of the blocks that cover `tokens` tokens: those that hold the readable ones, then those to write next.
    pub(crate) fn ids(&self, tokens: usize) -> impl Iterator<Item = u32> + '_ {
        let blocks = tokens.div_ceil(self.table.block_tokens);
        debug_assert!(blocks <= self.table.entries.len(), "the table was not grown before the plan");
        self.table.entries[..blocks].iter().map(Entry::id)
    }
}

impl BlockTable {
    /// An empty table. With `publish`, completed blocks can be reused by others.
    pub(crate) fn new(block_tokens: usize, chain: Chain, publish: bool) -> Self {
        Self { entries: Vec::new(), filled: 0, block_tokens, chain, publish }
    }

    /// Takes the longest run of blocks that `find` has for the front of `tokens`. Only for an empty table.
    pub(crate) fn match_prefix(&mut self, tokens: &[u32], mut find: impl FnMut(BlockHash) -> Option<Ready>) {
        debug_assert!(self.entries.is_empty());
        for block in tokens.chunks_exact(self.block_tokens) {
            let next = self.chain.then(block);
            let Some(ready) = find(next.hash()) else { return };
            self.chain = next;
            self.entries.push(Entry::Ready(ready));
            self.filled += self.block_tokens;
        }
    }

    /// Adds blocks until the table covers `tokens` tokens, all or none.
    pub(crate) fn grow(&mut self, tokens: usize, mut allocate: impl FnMut() -> Option<Filling>) -> bool {
        let had = self.entries.len();
        while self.entries.len() * self.block_tokens < tokens {
            let Some(block) = allocate() else {
                self.entries.truncate(had);
                return false;
            };
            self.entries.push(Entry::Filling(block));
        }
        true
    }

    /// Tokens whose KV is complete.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Holds on the full blocks from the `from`th on. They are immutable, and stay while anyone holds them.
    pub(crate) fn full(&self, from: usize) -> Vec<Ready> {
        let full = &self.entries[..self.filled / self.block_tokens];
        full.iter().skip(from).filter_map(|e| if let Entry::Ready(b) = e { Some(b.clone()) } else { None }).collect()
    }

    /// Blocks that the first `tokens` tokens fill; with `all` the last one counts even if there is room in it.
    pub(crate) fn blocks_of(&self, tokens: usize, all: bool) -> usize {
        if all { tokens.div_ceil(self.block_tokens) } else { tokens / self.block_tokens }
    }

    /// Blocks in the table.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The guard through which blocks are named. Every entry is readable up to `filled`: entries only become part of a
    /// table complete, or empty and filled by the steps that [`Self::advance`] recorded.
    pub(crate) fn readable(&self) -> Readable<'_> {
        Readable { table: self }
    }

    /// Records that a step which wrote KV for `tokens[filled..upto]` has completed; `tokens` is the whole sequence.
    pub(crate) fn advance(&mut self, tokens: &[u32], upto: usize) {
        debug_assert!(upto >= self.filled && upto <= self.entries.len() * self.block_tokens);
        let done = self.filled / self.block_tokens;
        for (i, block) in tokens[..upto].chunks_exact(self.block_tokens).enumerate().skip(done) {
            self.chain = self.chain.then(block);
            let hash = self.publish.then(|| self.chain.hash());
            // Take the entry out to change its type; the table has no gap afterwards.
            if let Entry::Filling(block) = self.entries.swap_remove(i) {
                self.entries.push(Entry::Ready(block.complete(hash)));
            } else {
                debug_assert!(false, "a full block was filled again");
            }
            let last = self.entries.len() - 1;
            self.entries.swap(i, last);
        }
        self.filled = upto;
    }
}

impl Drop for BlockTable {
    /// Releases the last block first, so that the cache evicts the tail of a prefix before its head.
    fn drop(&mut self) {
        while self.entries.pop().is_some() {}
    }
}
