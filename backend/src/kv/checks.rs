//! Debug mode: a complete block never changes. Its checksum is taken when a step has completed it, and compared before every
//! step, copy or eviction that reads it.

use std::collections::HashMap;

use crate::exec::Executor;

/// A block whose content is not what it was when it was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("KV block {0} changed after it was complete")]
pub(crate) struct Changed(pub(crate) u32);

/// Checksums of complete blocks.
#[derive(Debug)]
pub(super) struct Checks {
    sums: HashMap<u32, u32>,
    bytes: Vec<u8>,
}

impl Checks {
    pub(super) fn new(block_bytes: usize) -> Self {
        Self { sums: HashMap::new(), bytes: vec![0; block_bytes] }
    }

    /// The block is complete.
    pub(super) fn seal(&mut self, device: &dyn Executor, block: u32) {
        let sum = self.sum(device, block);
        self.sums.insert(block, sum);
    }

    /// The block holds something new from now on.
    pub(super) fn forget(&mut self, block: u32) {
        self.sums.remove(&block);
    }

    /// The block is about to be read.
    pub(super) fn check(&mut self, device: &dyn Executor, block: u32) -> Result<(), Changed> {
        match self.sums.get(&block).copied() {
            Some(sum) if self.sum(device, block) != sum => Err(Changed(block)),
            _ => Ok(()),
        }
    }

    fn sum(&mut self, device: &dyn Executor, block: u32) -> u32 {
        device.read_block(block, &mut self.bytes);
        crc32fast::hash(&self.bytes)
    }
}
