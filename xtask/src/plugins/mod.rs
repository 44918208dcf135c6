//! Format plugins: built for WebAssembly, encoded as components.

mod component;
mod door;
mod target;

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::run;
use crate::workspace::{Workspace, cargo};

pub(crate) use target::Std;

/// Builds every plugin to `target/plugins/` and every test guest to `target/test-plugins/`.
///
/// # Errors
/// The target cannot be made available, or a plugin does not build or is none.
pub(crate) fn build(workspace: &Workspace, std: Option<Std>) -> Result<()> {
    let std = Std::ensure(std)?;
    let folders = [("plugins", "target/plugins"), ("tests/guests", "target/test-plugins")];
    let packages = || folders.iter().flat_map(|(source, _)| workspace.components(source));
    if packages().next().is_none() {
        bail!("no package under plugins/ builds a cdylib");
    }
    let mut build = std.cargo_build();
    for package in packages() {
        build.args(["--package", &package.name]);
    }
    run::run(build.current_dir(&workspace.root).arg("--target-dir").arg(&workspace.target))?;
    for (source, destination) in folders {
        encode_all(workspace, source, &workspace.root.join(destination))?;
    }
    Ok(())
}

/// Writes the page that lists every format.
///
/// # Errors
/// A plugin does not build, or a recorded case fails.
pub(crate) fn list_formats(workspace: &Workspace) -> Result<()> {
    let mut list = cargo();
    list.args(["run", "--release", "--quiet", "--package", "sluicegate-catalogue"]);
    run::run(list.current_dir(&workspace.root))
}

/// Leaves exactly the components of `source` in `destination`.
fn encode_all(workspace: &Workspace, source: &str, destination: &Path) -> Result<()> {
    std::fs::create_dir_all(destination).with_context(|| format!("cannot create {}", destination.display()))?;
    let built = workspace.target.join(target::TRIPLE).join("plugin");
    let mut names = Vec::new();
    for package in workspace.components(source) {
        let name = format!("{}.wasm", package.short_name());
        let module = built.join(format!("{}.wasm", package.name.replace('-', "_")));
        let changed = component::encode(&module, &destination.join(&name))?;
        eprintln!("    {}/{name}{}", destination.display(), if changed { "" } else { " (unchanged)" });
        names.push(name);
    }
    for entry in destination.read_dir()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".wasm") && !names.contains(&name) {
            std::fs::remove_file(entry.path()).with_context(|| format!("cannot remove the stale {name}"))?;
        }
    }
    Ok(())
}
