//! Files that two processes share: made under a name that nobody guesses, without a name once both have them open.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where shared memory is files.
pub(super) const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "sluicegate-pages-";

/// Such a file at the end that made it.
#[derive(Debug)]
pub(super) struct Named {
    file: File,
    path: PathBuf,
    named: bool,
}

impl Named {
    /// A new file, empty.
    ///
    /// # Errors
    /// There is no shared memory.
    pub(super) fn create_in(folder: &Path) -> io::Result<Self> {
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(io::Error::other)?;
        let path = folder.join(format!("{PREFIX}{:032x}", u128::from_le_bytes(name)));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, named: true })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The other end has it open: its name is not needed any more.
    pub(super) fn unname(&mut self) {
        if std::mem::take(&mut self.named) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Deref for Named {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.unname();
    }
}

/// Whether a path that another process offers is one of these files in `folder`.
pub(super) fn is_in(folder: &Path, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path == folder.join(&name) && name.starts_with(PREFIX)
}
