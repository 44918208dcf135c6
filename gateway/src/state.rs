//! The state folder: what the first run makes and later runs find again.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::tenant::key;

/// The folder. Only its owner can read what is in it.
#[derive(Clone, Debug)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// Opens a folder, making it if need be.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        make_dir(root)?;
        Ok(Self { root: root.to_owned() })
    }

    /// Path of a file in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Writes a file in one step, so that a crash leaves the old one or the new one.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.path(name);
        if let Some(dir) = path.parent() {
            make_dir(dir)?;
        }
        let part = path.with_extension(format!("{}.part", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&part)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&part, &path));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// The hash of the API key in a file; the first time, a new key is made and kept there.
    ///
    /// # Errors
    /// The file can't be read or written, or is empty.
    pub fn api_key(&self, name: &str) -> anyhow::Result<key::Hash> {
        let path = self.path(name);
        let key = match fs::read_to_string(&path) {
            Ok(text) => text.trim().to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let key = key::generate()?;
                self.write(name, format!("{key}\n").as_bytes())?;
                tracing::info!(file = %path.display(), "made an API key");
                key
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        anyhow::ensure!(!key.is_empty(), "{} is empty; remove it to get a new key", path.display());
        Ok(key::Hash::of(&key))
    }
}

fn make_dir(path: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make the folder {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("a/b")).unwrap();
        let first = state.api_key("api_key").unwrap();
        assert_eq!(state.api_key("api_key").unwrap(), first);
        let text = fs::read_to_string(state.path("api_key")).unwrap();
        assert_eq!(key::Hash::of(text.trim()), first);
        assert_eq!(fs::metadata(state.path("api_key")).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
