//! Content hashes of blocks: a chain over everything that a block's KV depends on.

use sha2::{Digest, Sha256};

/// Names the content of a full block: its own tokens, all tokens before it, and the salt. 128 bits of SHA-256, since a
/// collision would give one client the KV of another's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockHash(u128);

/// The hash of the blocks so far; the next block's hash continues it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain(BlockHash);

impl Chain {
    /// The chain of an empty sequence. Sequences with different salts share nothing.
    pub(crate) fn new(salt: Option<u64>) -> Self {
        let mut h = Sha256::new();
        h.update(b"sluicegate kv 1");
        if let Some(salt) = salt {
            h.update(salt.to_le_bytes());
        }
        Self(digest(h))
    }

    /// The chain after one more full block of `tokens`.
    pub(crate) fn then(self, tokens: &[u32]) -> Self {
        let mut h = Sha256::new();
        h.update(self.0.0.to_le_bytes());
        tokens.iter().for_each(|t| h.update(t.to_le_bytes()));
        Self(digest(h))
    }

    /// The hash of the last block.
    pub(crate) fn hash(self) -> BlockHash {
        self.0
    }
}

fn digest(h: Sha256) -> BlockHash {
    let bytes: [u8; 32] = h.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    BlockHash(u128::from_le_bytes(half))
}
