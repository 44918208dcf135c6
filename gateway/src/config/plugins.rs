//! `[plugins]`: where format plugins come from and what a call may take.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::seconds::seconds;
use super::{Broken, require};

/// `[plugins]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plugins {
    /// Folder of components (`*.wasm`).
    pub dir: PathBuf,
    /// Load a component again when its file changes.
    pub watch: bool,
    /// For one `push` or `finish`.
    #[serde(rename = "call_timeout_s", deserialize_with = "seconds")]
    pub call_timeout: Duration,
    /// For one `describe`, `toolset`, `grammar` or `render`.
    #[serde(rename = "setup_timeout_s", deserialize_with = "seconds")]
    pub setup_timeout: Duration,
    /// Linear memory of one instance, in MiB.
    pub memory_mib: usize,
    /// Bytes that one call may return.
    pub max_output_bytes: usize,
    /// Streams that share an instance.
    pub streams_per_instance: usize,
    /// Which streams share an instance.
    pub isolation: Isolation,
    /// What happens to the stream whose call trapped.
    pub on_trap: OnTrap,
    /// Traps within a minute after which a plugin is rolled back to its last good version; 0 never does.
    pub rollback_after_traps: u32,
}

/// `plugins.isolation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Streams of any tenant share, up to `streams_per_instance`.
    Shared,
    /// Only streams of one tenant share.
    Tenant,
    /// Each stream has its own instance.
    Stream,
}

/// `plugins.on_trap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTrap {
    /// The stream ends with an error.
    Fail,
    /// The rest of the stream is passed on as plain content.
    Raw,
}

impl Default for Plugins {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("plugins"),
            watch: true,
            call_timeout: Duration::from_millis(20),
            setup_timeout: Duration::from_millis(200),
            memory_mib: 16,
            max_output_bytes: 4 << 20,
            streams_per_instance: 64,
            isolation: Isolation::Shared,
            on_trap: OnTrap::Fail,
            rollback_after_traps: 10,
        }
    }
}

impl Plugins {
    pub(super) fn validate(&self) -> Result<(), Broken> {
        require((1..=4096).contains(&self.memory_mib), "plugins.memory_mib", "must be 1 to 4096")?;
        require(self.max_output_bytes >= 4096, "plugins.max_output_bytes", "must be at least 4096")?;
        require((1..=1024).contains(&self.streams_per_instance), "plugins.streams_per_instance", "must be 1 to 1024")
    }
}
