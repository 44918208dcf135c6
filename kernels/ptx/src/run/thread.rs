//! A thread: registers, local memory, copies in flight, and what it waits for.

use super::copies::Copies;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// At the barrier instruction `pc`, on barrier `id` for `threads` threads (all that live, if 0).
    AtBarrier {
        pc: usize,
        id: u64,
        threads: u64,
    },
    /// At the warp instruction `pc`, with these lanes.
    AtWarpOp {
        pc: usize,
        mask: u32,
    },
    Ended,
}

#[derive(Debug)]
pub(super) struct Thread {
    /// Number in the block.
    pub(super) id: u32,
    pub(super) pc: usize,
    pub(super) registers: Vec<u64>,
    pub(super) local: Vec<u8>,
    pub(super) state: State,
    pub(super) copies: Copies,
}

impl Thread {
    pub(super) fn lane(&self) -> u32 {
        self.id % 32
    }
}
