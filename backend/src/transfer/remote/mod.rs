//! Prefill in another process: the transfer protocol over TCP.
//!
//! One link (connection) carries both directions of many transfers. Its threads only move frames; all decisions are
//! made by the two workers, each of which owns its end's state machine. Links are encrypted, and authenticated by a
//! shared secret.

mod carrier;
mod dial;
mod frame;
mod hello;
mod inbound;
mod job;
mod link;
mod outbound;
mod outlet;
mod serve;
mod tls;

pub use hello::{Secret, layout};
pub use serve::ServeError;
pub use tls::Identity;

pub(crate) use carrier::export;
pub(crate) use dial::Links;
pub(crate) use inbound::RemoteIn;
pub(crate) use outbound::RemoteOut;
pub(crate) use outlet::RemoteOutlet;
pub(crate) use serve::listen;
