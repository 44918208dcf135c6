//! The folder that components are loaded from, and the watch on it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime};
use std::{fs, io, thread};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::candidate::is_plugin_name;
use super::error::{Refused, RefusedReason};
use super::registry::{Registry, lock};
use super::status::LoadReport;

/// How often the folder is looked at when the system reports nothing: some file systems never do.
const POLL: Duration = Duration::from_secs(2);

/// What was last seen in a folder.
pub(super) struct Folder {
    dir: PathBuf,
    seen: HashMap<String, Stamp>,
}

/// Tells whether a file may have changed. Bytes decide whether it did.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Folder {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), seen: HashMap::new() }
    }

    /// Loads what is new or changed since the last scan, as many at a time as there are cores. A file that has gone
    /// is no reason to stop serving: editors and copiers remove before they write.
    pub(super) fn scan(&mut self, registry: &Registry) -> io::Result<Vec<Result<LoadReport, Refused>>> {
        let mut changed = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let Some(name) = component_name(&path) else { continue };
            // Gone between the listing and now.
            let Ok(file) = fs::metadata(&path) else { continue };
            let stamp = Stamp { bytes: file.len(), modified: file.modified().ok() };
            if file.is_file() && self.seen.insert(name.clone(), stamp) != Some(stamp) {
                changed.push((name, path));
            }
        }
        changed.sort();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut reports = Vec::new();
        for batch in changed.chunks(cores) {
            thread::scope(|scope| {
                let loads: Vec<_> =
                    batch.iter().map(|(name, path)| scope.spawn(|| load_file(registry, name, path))).collect();
                reports.extend(loads.into_iter().filter_map(|load| load.join().ok()));
            });
        }
        Ok(reports)
    }

    /// Writes a component so that no reader ever sees half of it.
    fn write(&self, name: &str, wasm: &[u8]) -> io::Result<()> {
        let fresh = self.dir.join(format!(".{name}.wasm.new"));
        fs::write(&fresh, wasm)?;
        fs::rename(&fresh, self.dir.join(format!("{name}.wasm")))
    }
}

fn component_name(path: &Path) -> Option<String> {
    if path.extension()? != "wasm" {
        return None;
    }
    let stem = path.file_stem()?.to_str()?;
    if !is_plugin_name(stem) {
        // Hidden files are other programs' drafts.
        if !stem.starts_with('.') {
            tracing::warn!(file = %path.display(), "not loaded: {}", RefusedReason::Name);
        }
        return None;
    }
    Some(stem.to_owned())
}

fn load_file(registry: &Registry, name: &str, path: &Path) -> Result<LoadReport, Refused> {
    let wasm = fs::read(path).map_err(|error| Refused {
        plugin: name.to_owned(),
        reason: RefusedReason::Io { path: path.display().to_string(), error: error.to_string() },
    })?;
    registry.load(name, wasm)
}

impl Registry {
    /// Loads a component and, if it is taken into service, keeps it in the registry's folder, so that a restart
    /// serves the same.
    ///
    /// # Errors
    /// The component is refused, or it serves but could not be written.
    pub fn install(&self, name: &str, wasm: &[u8]) -> Result<LoadReport, Refused> {
        let report = self.load(name, wasm)?;
        if let Some(folder) = lock(&self.0.folder).as_ref() {
            folder.write(name, wasm).map_err(|error| Refused {
                plugin: name.to_owned(),
                reason: RefusedReason::Io { path: folder.dir.display().to_string(), error: error.to_string() },
            })?;
        }
        Ok(report)
    }

    /// Loads what changes in the registry's folder from now on, until the watch is dropped. Does nothing without a
    /// folder.
    ///
    /// # Errors
    /// The system cannot start a thread. Where it cannot report changes, the folder is looked at every two seconds.
    pub fn watch(&self) -> io::Result<Watch> {
        let (sender, changes) = mpsc::channel();
        let watcher = lock(&self.0.folder).as_ref().and_then(|folder| watcher(&folder.dir, sender.clone()));
        let registry = self.clone();
        let settle = Duration::from_millis(self.0.settle_ms());
        let thread = thread::Builder::new().name("plugin-watch".to_owned()).spawn(move || {
            loop {
                match changes.recv_timeout(POLL) {
                    Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {}
                    // Wait until nothing has changed for a moment: a file being written changes many times.
                    Ok(Signal::Changed) => loop {
                        match changes.recv_timeout(settle) {
                            Ok(Signal::Changed) => {}
                            Err(RecvTimeoutError::Timeout) => break,
                            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                        }
                    },
                }
                if let Some(folder) = lock(&registry.0.folder).as_mut()
                    && let Err(error) = folder.scan(&registry)
                {
                    tracing::warn!(%error, folder = %folder.dir.display(), "cannot read the plugin folder");
                }
            }
        })?;
        Ok(Watch { sender, thread: Some(thread), _watcher: watcher })
    }
}

fn watcher(dir: &Path, sender: Sender<Signal>) -> Option<RecommendedWatcher> {
    let changed = move |event: notify::Result<notify::Event>| {
        // Our own reading is no change.
        if event.map_or(true, |event| !event.kind.is_access()) {
            let _ = sender.send(Signal::Changed);
        }
    };
    let watcher = notify::recommended_watcher(changed).and_then(|mut watcher| {
        watcher.watch(dir, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    watcher.inspect_err(|error| tracing::warn!(%error, "the plugin folder is polled: it cannot be watched")).ok()
}

enum Signal {
    Changed,
    Stop,
}

/// Keeps the folder watched; dropping it stops the watch.
#[derive(Debug)]
pub struct Watch {
    sender: Sender<Signal>,
    thread: Option<thread::JoinHandle<()>>,
    _watcher: Option<RecommendedWatcher>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.sender.send(Signal::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
