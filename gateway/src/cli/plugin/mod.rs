//! `sluicegate plugin`: looking at format plugins and testing them, without a server.

mod case;
mod check;
mod message;
mod new;
mod verdict;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::plugins::{Registry, Settings};

/// Looks at format plugins and tests them.
#[derive(Debug, Args)]
pub(super) struct Plugin {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run recorded cases through plugins, in every chunking.
    Check(check::Check),
    /// Write a crate for a format of one's own.
    New(new::New),
    /// Load a component as the gateway would, and print what it says about itself as JSON.
    Inspect {
        /// The component.
        file: PathBuf,
    },
}

impl Plugin {
    pub(super) fn run(self) -> Result<()> {
        match self.command {
            Command::Check(check) => check.run(),
            Command::New(new) => new.run(),
            Command::Inspect { file } => inspect(&file),
        }
    }
}

fn inspect(file: &Path) -> Result<()> {
    let registry = Registry::new(Settings::default())?;
    load(&registry, file)?;
    println!("{}", serde_json::to_string_pretty(&registry.formats())?);
    Ok(())
}

/// Loads one file under the name that the gateway would give it, or as `plugin` if its name is not usable.
fn load(registry: &Registry, file: &Path) -> Result<()> {
    let wasm = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let stem = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name = if stem.chars().all(usable) && !stem.is_empty() { stem } else { "plugin" };
    registry.load(name, wasm).with_context(|| format!("{} does not load", file.display()))?;
    Ok(())
}

/// Where `cargo xtask plugins` puts the components.
const BUILT: &str = "target/plugins";

/// The folder given, or the one that `cargo xtask plugins` fills, or the one that the gateway reads by default.
fn folder(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(dir) = given {
        return Ok(dir.to_owned());
    }
    for dir in [BUILT, "plugins"] {
        let mut entries = fs::read_dir(dir).into_iter().flatten().flatten();
        if entries.any(|entry| entry.path().extension().is_some_and(|ext| ext == "wasm")) {
            return Ok(PathBuf::from(dir));
        }
    }
    bail!("no components in {BUILT} or plugins; name a file with --plugin or a folder with --dir")
}
