//! Which version serves which format, and how one takes over from another.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Instant, SystemTime};
use std::{fmt, thread};

use arc_swap::ArcSwap;

use super::candidate::{is_plugin_name, prepare, sha256};
use super::descriptor::Descriptor;
use super::error::{PluginError, Refused, RefusedReason};
use super::folder::Folder;
use super::host::Host;
use super::pinned::Pinned;
use super::settings::Settings;
use super::status::{LoadReport, Refusal, Status, VersionState, VersionStatus};
use super::version::{Identity, Version};

/// The loaded plugins of a process. Clones share everything.
///
/// Loading blocks for tenths of a second of CPU time: call it where blocking is allowed. Pinning never blocks.
#[derive(Clone)]
pub struct Registry(pub(super) Arc<Inner>);

pub(super) struct Inner {
    host: Arc<Host>,
    pub(super) folder: Mutex<Option<Folder>>,
    table: ArcSwap<Table>,
    writer: Mutex<Writer>,
    serial: AtomicU64,
}

/// What serves now. Replaced as a whole, so that a reader sees a plugin's formats change together.
#[derive(Clone, Default)]
struct Table {
    plugins: BTreeMap<String, Arc<Version>>,
    formats: HashMap<String, (Arc<Version>, usize)>,
}

#[derive(Default)]
struct Writer {
    /// Versions that no longer serve new streams.
    draining: Vec<Weak<Version>>,
    /// The component that served before, to roll back to. Bytes only: its code is freed with its last stream.
    previous: HashMap<String, Arc<[u8]>>,
    refused: BTreeMap<String, Refusal>,
}

impl Inner {
    pub(super) fn settle_ms(&self) -> u64 {
        self.host.settings.settle_ms
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// An empty registry.
    ///
    /// # Errors
    /// The WebAssembly engine cannot run on this machine.
    pub fn new(settings: Settings) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Inner {
            host: Host::new(settings)?,
            folder: Mutex::new(None),
            table: ArcSwap::default(),
            writer: Mutex::default(),
            serial: AtomicU64::new(0),
        })))
    }

    /// A registry with every `*.wasm` of a folder, each under its file's stem. A component that is refused does not
    /// keep the others from serving; [`Self::status`] says why.
    ///
    /// # Errors
    /// The folder cannot be read, or the WebAssembly engine cannot run on this machine.
    pub fn open(dir: &Path, settings: Settings) -> anyhow::Result<Self> {
        let registry = Self::new(settings)?;
        let mut folder = Folder::new(dir);
        folder.scan(&registry)?;
        *lock(&registry.0.folder) = Some(folder);
        Ok(registry)
    }

    /// Loads a component under a name, in place of the one that has this name. Streams in flight finish on the
    /// version they began with.
    ///
    /// # Errors
    /// The component is refused; what served before goes on serving.
    pub fn load(&self, name: &str, wasm: impl Into<Arc<[u8]>>) -> Result<LoadReport, Refused> {
        let wasm = wasm.into();
        let sha = sha256(&wasm);
        let report = self.try_load(name, wasm, &sha).map_err(|reason| Refused { plugin: name.to_owned(), reason });
        let mut writer = lock(&self.0.writer);
        match &report {
            // It was forgotten when the new version began to serve, unless the bytes are those that serve already.
            Ok(_) => drop(writer.refused.remove(name)),
            Err(refused) => {
                self.0.host.counters.refused.fetch_add(1, Relaxed);
                tracing::warn!(plugin = name, sha256 = sha, reason = %refused.reason, "plugin refused");
                let refusal = Refusal {
                    plugin: name.to_owned(),
                    sha256: sha,
                    reason: refused.reason.to_string(),
                    at: SystemTime::now(),
                };
                writer.refused.insert(name.to_owned(), refusal);
            }
        }
        report
    }

    fn try_load(&self, name: &str, wasm: Arc<[u8]>, sha: &str) -> Result<LoadReport, RefusedReason> {
        if !is_plugin_name(name) {
            return Err(RefusedReason::Name);
        }
        if let Some(serving) = self.0.table.load().plugins.get(name)
            && serving.sha256 == sha
        {
            return Ok(LoadReport::unchanged(name, serving));
        }
        let begun = Instant::now();
        let serial = self.0.serial.fetch_add(1, Relaxed);
        let identity = Identity { name: name.to_owned(), serial, sha256: sha.to_owned(), wasm };
        let version = Arc::new(prepare(&self.0.host, identity)?);
        let replaced = self.put(&version)?;
        let took = begun.elapsed();
        tracing::info!(plugin = name, version = version.plugin.version, sha256 = sha, ?took, "plugin loaded");
        Ok(LoadReport::loaded(&version, replaced.as_deref(), took))
    }

    /// Takes a version into service. The old one serves until the instant the new one does.
    fn put(&self, version: &Arc<Version>) -> Result<Option<Arc<Version>>, RefusedReason> {
        let mut writer = lock(&self.0.writer);
        let mut table = Table::clone(&self.0.table.load());
        for format in &version.plugin.formats {
            if let Some((owner, _)) = table.formats.get(&format.name)
                && owner.name != version.name
            {
                return Err(RefusedReason::Taken { format: format.name.clone(), owner: owner.name.clone() });
            }
        }
        table.formats.retain(|_, (owner, _)| owner.name != version.name);
        for (n, format) in version.plugin.formats.iter().enumerate() {
            table.formats.insert(format.name.clone(), (Arc::clone(version), n));
        }
        let old = table.plugins.insert(version.name.clone(), Arc::clone(version));
        self.0.table.store(Arc::new(table));
        writer.refused.remove(&version.name);
        if let Some(old) = &old {
            writer.retire(old);
        }
        Ok(old)
    }

    /// Takes a plugin out of service; streams in flight finish. False when there is none of this name.
    pub fn remove(&self, name: &str) -> bool {
        let mut writer = lock(&self.0.writer);
        let mut table = Table::clone(&self.0.table.load());
        table.formats.retain(|_, (owner, _)| owner.name != name);
        let old = table.plugins.remove(name);
        self.0.table.store(Arc::new(table));
        old.inspect(|old| writer.retire(old)).is_some()
    }

    /// Goes back to the component that served before under this name.
    ///
    /// # Errors
    /// None served before, or it is refused now.
    pub fn rollback(&self, name: &str) -> Result<LoadReport, Refused> {
        let Some(previous) = lock(&self.0.writer).previous.remove(name) else {
            let reason = RefusedReason::Invalid("there is no earlier component to go back to".to_owned());
            return Err(Refused { plugin: name.to_owned(), reason });
        };
        self.0.host.counters.rollbacks.fetch_add(1, Relaxed);
        self.load(name, previous)
    }

    /// Holds the version that serves a format now, for one request.
    ///
    /// # Errors
    /// No plugin serves the format.
    pub fn pin(&self, format: &str) -> Result<Pinned, PluginError> {
        let table = self.0.table.load();
        let Some((version, n)) = table.formats.get(format) else {
            return Err(PluginError::UnknownFormat(format.to_owned()));
        };
        if version.quarantined.load(Relaxed) {
            self.roll_back_behind(version);
        }
        Ok(Pinned::new(Arc::clone(version), *n))
    }

    /// Replaces a version that fails too often, without holding up the request that noticed.
    fn roll_back_behind(&self, bad: &Arc<Version>) {
        let Some(previous) = lock(&self.0.writer).previous.remove(&bad.name) else { return };
        let (registry, name) = (self.clone(), bad.name.clone());
        let spawned = thread::Builder::new().name("plugin-rollback".to_owned()).spawn(move || {
            registry.0.host.counters.rollbacks.fetch_add(1, Relaxed);
            if let Err(error) = registry.load(&name, previous) {
                tracing::error!(%error, "the earlier plugin version does not load any more");
            }
        });
        if let Err(error) = spawned {
            tracing::error!(%error, "cannot start the thread that rolls a plugin back");
        }
    }

    /// Descriptions of every format that is served, by name.
    #[must_use]
    pub fn formats(&self) -> Vec<Descriptor> {
        let table = self.0.table.load();
        let mut formats: Vec<_> =
            table.formats.values().map(|(version, n)| version.plugin.formats[*n].clone()).collect();
        formats.sort_by(|a, b| a.name.cmp(&b.name));
        formats
    }

    /// Everything that is loaded or was refused, and the counters.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut writer = lock(&self.0.writer);
        writer.draining.retain(|version| version.strong_count() > 0);
        let table = self.0.table.load();
        let serving = table.plugins.values().map(|version| {
            let quarantined = version.quarantined.load(Relaxed);
            let state = if quarantined { VersionState::Failing } else { VersionState::Active };
            VersionStatus::new(version, state)
        });
        let draining = writer.draining.iter().filter_map(Weak::upgrade);
        let draining = draining.map(|version| VersionStatus::new(&version, VersionState::Draining));
        Status {
            versions: serving.chain(draining).collect(),
            refused: writer.refused.values().cloned().collect(),
            stores: self.0.host.stores(),
            totals: self.0.host.counters.totals(),
        }
    }
}

impl Writer {
    fn retire(&mut self, old: &Arc<Version>) {
        old.retire();
        self.draining.retain(|version| version.strong_count() > 0);
        self.draining.push(Arc::downgrade(old));
        // A version that failed too often is nothing to go back to.
        if !old.quarantined.load(Relaxed) {
            self.previous.insert(old.name.clone(), Arc::clone(&old.wasm));
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.table.load().plugins.iter().map(|(name, v)| (name, &v.plugin.version))).finish()
    }
}
