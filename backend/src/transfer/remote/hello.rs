//! The first exchange on a link: version, roles, the same model and page layout, and proof that both know the secret.

use std::fmt;
use std::io::{self, Read, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::exec::ModelSpec;

const MAGIC: &[u8; 8] = b"sluice\x01\n";
/// Changes when frames or their meaning change.
const VERSION: u16 = 1;

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
pub(super) fn layout(model: &ModelSpec) -> [u8; 32] {
    Sha256::digest(format!("{model:?}")).into()
}

fn proof(secret: &Secret, end: End, own: &[u8; 32], peer: &[u8; 32], layout: &[u8; 32]) -> io::Result<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).map_err(io::Error::other)?;
    mac.update(&[end as u8]);
    mac.update(own);
    mac.update(peer);
    mac.update(layout);
    Ok(mac)
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
    stream.write_all(&proof(secret, end, &nonce, &peer_nonce, layout)?.finalize().into_bytes())?;
    let mut tag = [0; 32];
    stream.read_exact(&mut tag)?;
    // The peer's own layout, so that a wrong secret and a wrong model are told apart.
    let peer_layout: [u8; 32] = std::array::from_fn(|i| theirs[43 + i]);
    if proof(secret, peer_end, &peer_nonce, &nonce, &peer_layout)?.verify_slice(&tag).is_err() {
        return refuse("the peer does not know the shared secret");
    }
    if peer_layout != *layout {
        return refuse("the peer runs another model or page layout; load the same model folder on both sides");
    }
    Ok(())
}
