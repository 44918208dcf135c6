//! Sessions and links are TLS 1.3 in which both ends prove the same key, which follows from the shared secret.
//!
//! There are no certificates to issue, to copy or to renew: keys are sent bare (RFC 7250) and each end accepts one, its
//! own. So whoever knows the secret is let in, from whatever address, and nobody else sees a byte of a prompt.

mod halves;
mod identity;

pub(super) use halves::{Secured, Writer};
pub use identity::Identity;
