//! Who may talk: both sides prove that they know the shared secret, each for the other's random bytes.

use sluicegate_backend::engine::Secret;
use tonic::metadata::{MetadataMap, MetadataValue};

use crate::wire::Role;

/// Changes when messages or their meaning change.
pub(crate) const VERSION: u32 = 2;
/// Length of an instance and of a nonce.
const RANDOM: usize = 32;

const NONCE: &str = "sluicegate-nonce-bin";
const PROOF: &str = "sluicegate-proof-bin";

/// 32 random bytes.
pub(crate) fn random() -> std::io::Result<[u8; RANDOM]> {
    let mut bytes = [0; RANDOM];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}

/// What a worker's proof covers.
pub(crate) struct WorkerClaim<'a> {
    pub(crate) role: Role,
    pub(crate) instance: &'a [u8],
    pub(crate) nonce: &'a [u8],
    pub(crate) layout: &'a [u8],
    pub(crate) transfer: &'a str,
}

impl WorkerClaim<'_> {
    fn with<T>(&self, act: impl FnOnce(&[&[u8]]) -> T) -> T {
        act(&[b"worker", &[self.role as u8], self.instance, self.nonce, self.layout, self.transfer.as_bytes()])
    }

    pub(crate) fn prove(&self, secret: &Secret) -> Vec<u8> {
        self.with(|parts| secret.proof(parts).to_vec())
    }

    pub(crate) fn is_proved_by(&self, secret: &Secret, proof: &[u8]) -> bool {
        self.with(|parts| secret.proves(parts, proof))
    }
}

/// Adds a gateway's proof, for one start of one worker.
pub(crate) fn sign(metadata: &mut MetadataMap, secret: &Secret, instance: &[u8], nonce: &[u8]) {
    let proof = secret.proof(&[b"gateway", instance, nonce]);
    metadata.insert_bin(NONCE, MetadataValue::from_bytes(nonce));
    metadata.insert_bin(PROOF, MetadataValue::from_bytes(&proof));
}

/// Whether the caller knows the secret and talks to this start of the worker.
pub(crate) fn is_signed(metadata: &MetadataMap, secret: &Secret, instance: &[u8]) -> bool {
    let bytes = |key| metadata.get_bin(key).and_then(|v| v.to_bytes().ok());
    let (Some(nonce), Some(proof)) = (bytes(NONCE), bytes(PROOF)) else { return false };
    nonce.len() == RANDOM && secret.proves(&[b"gateway", instance, &nonce], &proof)
}
