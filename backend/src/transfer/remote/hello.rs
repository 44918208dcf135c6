//! The first exchange on a link: version, roles, the same model and page layout, and proof that both know the secret.

use std::fmt;
use std::io::{self, Read, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::exec::ModelSpec;

const MAGIC: &[u8; 8] = b"sluice\x01\n";
/// Changes when frames or their meaning change.
const VERSION: u16 = 6;

/// What both ends of a link must know. Never printed.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Shortest secret that is accepted, in bytes.
    pub const LEAST: usize = 16;

    /// A secret; none if it is too short to be one.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        (bytes.len() >= Self::LEAST).then_some(Self(bytes))
    }

    /// Proof of knowing the secret: HMAC-SHA-256 over `parts`, each with its length, so that parts can't run together.
    #[must_use]
    pub fn proof(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether `proof` is [`Self::proof`] of these parts; takes the same time wherever it differs.
    #[must_use]
    pub fn proves(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // HMAC's own treatment of a long key, so that there is no error to handle: its digest, padded with zeros.
        let mut key = [0; 64];
        key[..32].copy_from_slice(&Sha256::digest(&self.0));
        let mut mac = Hmac::<Sha256>::new(&key.into());
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Source = 1,
    Sink = 2,
}

/// A digest of everything that two peers must have in common: the model's shape and the layout of its pages.
#[must_use]
pub fn layout(model: &ModelSpec) -> [u8; 32] {
    Sha256::digest(format!("{model:?}")).into()
}

/// Runs the exchange.
///
/// # Errors
/// Says what the peer lacks: version, role, layout or secret.
pub(super) fn exchange(
    stream: &mut (impl Read + Write),
    end: End,
    secret: &Secret,
    layout: &[u8; 32],
) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let mut hello = Vec::from(MAGIC);
    hello.extend(VERSION.to_le_bytes());
    hello.push(end as u8);
    hello.extend(nonce);
    hello.extend(layout);
    stream.write_all(&hello)?;
    let mut theirs = vec![0; hello.len()];
    stream.read_exact(&mut theirs)?;
    if theirs[..8] != *MAGIC {
        return refuse("the peer does not speak this protocol");
    }
    if theirs[8..10] != VERSION.to_le_bytes() {
        return refuse("the peer speaks another version of the transfer protocol; run the same release on both sides");
    }
    if theirs[10] == end as u8 {
        return refuse("the peer has the same role; a link joins a prefill and a decode worker");
    }
    let peer_end = if end == End::Source { End::Sink } else { End::Source };
    let peer_nonce: [u8; 32] = std::array::from_fn(|i| theirs[11 + i]);
    stream.write_all(&secret.proof(&[&[end as u8], &nonce, &peer_nonce, layout]))?;
    let mut tag = [0; 32];
    stream.read_exact(&mut tag)?;
    // The peer's own layout, so that a wrong secret and a wrong model are told apart.
    let peer_layout: [u8; 32] = std::array::from_fn(|i| theirs[43 + i]);
    if !secret.proves(&[&[peer_end as u8], &peer_nonce, &nonce, &peer_layout], &tag) {
        return refuse("the peer does not know the shared secret");
    }
    if peer_layout != *layout {
        return refuse(
            "the peer runs another model or page layout; start both sides with the same model folder, block size, cache \
             formats and speculative settings",
        );
    }
    Ok(())
}
