//! `[admin]`: the operators' listener.

use std::net::{Ipv4Addr, SocketAddr};

use serde::Deserialize;

use super::{Broken, require};
use crate::tenant::key::Hash;

/// `[admin]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Serve TLS, with the public listener's certificate. Off is accepted on a loopback address only.
    pub tls: bool,
    /// SHA-256 of the admin key, in hex. Without it a key is made in `server.state_dir` on the first run.
    pub key_sha256: Option<Hash>,
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 8444).into(), tls: true, key_sha256: None }
    }
}

impl Admin {
    pub(super) fn validate(&self) -> Result<(), Broken> {
        require(
            self.tls || self.listen.ip().is_loopback(),
            "admin.tls",
            format!("{} is not a loopback address, so TLS can't be off", self.listen.ip()),
        )
    }
}
