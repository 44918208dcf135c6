//! A copy of the kernels' sources with one place changed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Bug;
use crate::host::Toolchain;

/// Removed when dropped.
pub(super) struct Planted {
    pub(super) toolchain: Toolchain,
    folder: PathBuf,
}

impl Planted {
    pub(super) fn new(original: &Toolchain, bug: &Bug) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("sluicegate-planted-{}", std::process::id()));
        copy(&original.sources, &folder)?;
        let planted = Self { toolchain: original.on(folder.clone(), bug.sources), folder };
        let file = planted.folder.join(bug.file);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let Some((at, _)) = text.match_indices(bug.from).nth(bug.occurrence) else {
            bail!("{}: `{}` is not in {} any more; change the bug to match", bug.name, bug.from, bug.file);
        };
        fs::write(&file, format!("{}{}{}", &text[..at], bug.to, &text[at + bug.from.len()..]))?;
        Ok(planted)
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        // Nothing depends on the copy; what can't be removed is left to the system.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in from.read_dir().with_context(|| format!("cannot list {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
