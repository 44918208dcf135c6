//! `[server]` and `[limits]`: the public listener, and what one request or connection may take.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::seconds::seconds;
use super::{Broken, require};

/// `[server]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Serve TLS. Off is accepted on a loopback address only.
    pub tls: bool,
    /// Certificate chain, PEM. Without it a self-signed one is made in `state_dir`.
    pub ssl_certfile: Option<PathBuf>,
    /// Its private key, PEM.
    pub ssl_keyfile: Option<PathBuf>,
    /// Names and addresses in the self-signed certificate, besides localhost.
    pub self_signed_names: Vec<String>,
    /// Where the first run keeps its certificate and keys.
    pub state_dir: PathBuf,
    /// Threads that serve sockets and run plugins; 0 is one per core.
    pub threads: usize,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Which log lines are written, in `RUST_LOG` syntax; the variable itself has precedence.
    pub log_filter: String,
}

/// `server.log_format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8443).into(),
            tls: true,
            ssl_certfile: None,
            ssl_keyfile: None,
            self_signed_names: Vec::new(),
            state_dir: PathBuf::from("state"),
            threads: 0,
            log_format: LogFormat::Text,
            log_filter: "info".to_owned(),
        }
    }
}

impl Server {
    pub(super) fn validate(&self) -> Result<(), Broken> {
        require(
            self.tls || self.listen.ip().is_loopback(),
            "server.tls",
            format!("{} is not a loopback address, so TLS can't be off", self.listen.ip()),
        )?;
        require(
            self.ssl_certfile.is_some() == self.ssl_keyfile.is_some(),
            "server.ssl_certfile",
            "ssl_certfile and ssl_keyfile go together: give both or neither",
        )
    }
}

/// `[limits]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Open connections; further ones wait in the kernel's backlog.
    pub max_connections: usize,
    /// Streams that one HTTP/2 connection may have open.
    pub max_concurrent_streams: u32,
    /// Bytes of a request body.
    pub max_body_bytes: usize,
    /// Bytes of all request headers together.
    pub max_header_bytes: u32,
    /// Choices (`n`) of one request.
    pub max_choices: u32,
    /// From accept to the end of the TLS handshake.
    #[serde(rename = "handshake_timeout_s", deserialize_with = "seconds")]
    pub handshake_timeout: Duration,
    /// For an HTTP/1.1 request's headers, also between two requests of a connection.
    #[serde(rename = "header_timeout_s", deserialize_with = "seconds")]
    pub header_timeout: Duration,
    /// For a request's body.
    #[serde(rename = "body_timeout_s", deserialize_with = "seconds")]
    pub body_timeout: Duration,
    /// For a whole request, streamed or not.
    #[serde(rename = "request_timeout_s", deserialize_with = "seconds")]
    pub request_timeout: Duration,
    /// Silence on a stream after which a comment is sent, so that proxies keep it open.
    #[serde(rename = "keep_alive_s", deserialize_with = "seconds")]
    pub keep_alive: Duration,
    /// How long a client may leave a stream's events unread before it is dropped.
    #[serde(rename = "slow_client_timeout_s", deserialize_with = "seconds")]
    pub slow_client_timeout: Duration,
    /// After SIGTERM: how long running requests may take to finish.
    #[serde(rename = "drain_timeout_s", deserialize_with = "seconds")]
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_concurrent_streams: 256,
            max_body_bytes: 16 << 20,
            max_header_bytes: 32 << 10,
            max_choices: 16,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(600),
            keep_alive: Duration::from_secs(5),
            slow_client_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

impl Limits {
    pub(super) fn validate(&self) -> Result<(), Broken> {
        let least = |value: usize, least: usize, key: &str| {
            require(value >= least, format!("limits.{key}"), format!("must be at least {least}"))
        };
        least(self.max_connections, 1, "max_connections")?;
        least(self.max_concurrent_streams as usize, 1, "max_concurrent_streams")?;
        least(self.max_body_bytes, 1024, "max_body_bytes")?;
        least(self.max_header_bytes as usize, 8192, "max_header_bytes")?;
        least(self.max_choices as usize, 1, "max_choices")
    }
}
