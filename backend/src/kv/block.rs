//! Owners of a block in each state. Dropping one gives the block back, on every exit path.

use super::hash::BlockHash;
use super::pool::Pool;

/// A block that one sequence writes. Not shared, not published.
#[derive(Debug)]
pub(crate) struct Filling {
    id: u32,
    pool: Pool,
    moved: bool,
}

impl Filling {
    pub(super) fn new(id: u32, pool: Pool) -> Self {
        Self { id, pool, moved: false }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Every row of every pool is written by a completed step: the block is immutable from now on, and others may
    /// share it if its content is named.
    pub(crate) fn complete(mut self, hash: Option<BlockHash>) -> Ready {
        self.moved = true;
        self.pool.ready(self.id, hash)
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if !self.moved {
            self.pool.free(self.id);
        }
    }
}

/// A hold on a complete, immutable block.
#[derive(Debug)]
pub(crate) struct Ready {
    id: u32,
    pool: Pool,
}

impl Ready {
    pub(super) fn new(id: u32, pool: Pool) -> Self {
        Self { id, pool }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

impl Clone for Ready {
    fn clone(&self) -> Self {
        self.pool.hold(self.id);
        Self { id: self.id, pool: self.pool.clone() }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.pool.release(self.id);
    }
}
