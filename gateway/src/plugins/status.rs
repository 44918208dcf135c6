//! What the registry tells operators.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use super::host::Totals;
use super::version::Version;

/// The answer to a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoadReport {
    /// Name in the registry.
    pub plugin: String,
    /// The plugin's own version.
    pub version: String,
    /// SHA-256 of the component.
    pub sha256: String,
    /// Formats that it serves.
    pub formats: Vec<String>,
    /// The same bytes served before; nothing was built.
    pub unchanged: bool,
    /// SHA-256 of the component that it replaced.
    pub replaced: Option<String>,
    /// Milliseconds from bytes to service.
    pub took_ms: u64,
}

impl LoadReport {
    pub(super) fn loaded(version: &Version, replaced: Option<&Version>, took: Duration) -> Self {
        Self {
            plugin: version.name.clone(),
            version: version.plugin.version.clone(),
            sha256: version.sha256.clone(),
            formats: format_names(version),
            unchanged: false,
            replaced: replaced.map(|old| old.sha256.clone()),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn unchanged(name: &str, version: &Version) -> Self {
        Self { plugin: name.to_owned(), unchanged: true, ..Self::loaded(version, None, Duration::ZERO) }
    }
}

/// What a version does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionState {
    /// New streams begin on it.
    Active,
    /// New streams begin on it, each in a store of its own while its breaker is open: it failed too many streams.
    Failing,
    /// Only streams that began on it are left.
    Draining,
}

/// One version that is in memory.
#[derive(Clone, Debug, Serialize)]
pub struct VersionStatus {
    /// Name in the registry.
    pub plugin: String,
    /// The plugin's own version.
    pub version: String,
    /// SHA-256 of the component.
    pub sha256: String,
    /// Counts the versions of this process.
    pub serial: u64,
    /// Formats that it serves.
    pub formats: Vec<String>,
    /// What it does now.
    pub state: VersionState,
    /// Streams on it now.
    pub live_streams: usize,
    /// Streams that began on it.
    pub streams: u64,
    /// Streams that it failed.
    pub failed_streams: u64,
    /// Stores that its streams sit in.
    pub stores: usize,
    /// When it was loaded, seconds since the epoch.
    #[serde(serialize_with = "seconds")]
    pub loaded: SystemTime,
}

impl VersionStatus {
    pub(super) fn new(version: &Version, state: VersionState) -> Self {
        Self {
            plugin: version.name.clone(),
            version: version.plugin.version.clone(),
            sha256: version.sha256.clone(),
            serial: version.serial,
            formats: format_names(version),
            state,
            live_streams: version.live.load(Relaxed),
            streams: version.opened.load(Relaxed),
            failed_streams: version.failures.load(Relaxed),
            stores: version.stores(),
            loaded: version.loaded,
        }
    }
}

/// The last refusal under a name, until a load under that name succeeds.
#[derive(Clone, Debug, Serialize)]
pub struct Refusal {
    /// Name in the registry.
    pub plugin: String,
    /// SHA-256 of the refused component.
    pub sha256: String,
    /// What is wrong with it.
    pub reason: String,
    /// When, seconds since the epoch.
    #[serde(serialize_with = "seconds")]
    pub at: SystemTime,
}

/// The registry at one instant.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Every version in memory.
    pub versions: Vec<VersionStatus>,
    /// Components that were refused and not followed by a good one.
    pub refused: Vec<Refusal>,
    /// WebAssembly stores in memory.
    pub stores: usize,
    /// Counts since the start.
    pub totals: Totals,
}

fn format_names(version: &Version) -> Vec<String> {
    version.plugin.formats.iter().map(|format| format.name.clone()).collect()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn seconds<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    serializer.serialize_u64(since.as_secs())
}
