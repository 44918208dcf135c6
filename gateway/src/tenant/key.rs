//! API keys: random when made, hashed at rest, compared in constant time.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

/// SHA-256 of a key. Keys have 256 random bits, so a fast hash without salt is safe at rest, and a slow one would
/// only let strangers burn our processor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Hash of a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    /// Reads 64 hex digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 64 || !bytes.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(bytes.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }

    /// Equality that takes the same time for any two hashes.
    #[must_use]
    pub fn matches(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text)
            .ok_or_else(|| D::Error::custom("must be a SHA-256 in 64 hex digits; `sluicegate key` makes one"))
    }
}

/// A new key: `sk-sluice-` and 256 random bits in hex.
///
/// # Errors
/// When the system has no randomness.
pub fn generate() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(format!("sk-sluice-{}", Hash(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_survives_its_text() {
        let hash = Hash::of("sk-sluice-test");
        assert_eq!(Hash::from_hex(&hash.to_string()), Some(hash));
        assert_eq!(Hash::from_hex(&hash.to_string().to_uppercase()), Some(hash));
        // The published digest of "abc".
        assert_eq!(Hash::of("abc").to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn what_is_not_a_hash_is_refused() {
        for text in ["", "abc", &"g".repeat(64), &"a".repeat(63), &"é".repeat(32), &format!("+{}", "a".repeat(63))] {
            assert_eq!(Hash::from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn keys_differ() {
        let (a, b) = (generate().unwrap(), generate().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.len(), "sk-sluice-".len() + 64);
    }
}
