//! Where things are: the workspace as Cargo describes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::run;

/// The workspace: its folders and packages.
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where Cargo writes; `CARGO_TARGET_DIR` moves it.
    pub(crate) target: PathBuf,
    /// All members.
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
pub(crate) struct Package {
    /// Its name in `Cargo.toml`.
    pub(crate) name: String,
    /// Its folder, relative to the root.
    pub(crate) folder: PathBuf,
    /// Whether it builds a `cdylib`: what becomes a WebAssembly component.
    pub(crate) is_component: bool,
    /// Names of the members that its build depends on; those of its tests are left out.
    pub(crate) uses: Vec<String>,
}

impl Workspace {
    /// Asks Cargo.
    ///
    /// # Errors
    /// `cargo metadata` fails: a manifest is broken.
    pub(crate) fn load() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(manifest);
        let metadata: Value = serde_json::from_str(&run::output(&mut command)?)?;
        let root = PathBuf::from(text(&metadata, "workspace_root")?);
        let target = PathBuf::from(text(&metadata, "target_directory")?);
        let packages = array(&metadata, "packages").map(|p| Package::read(p, &root)).collect::<Result<_>>()?;
        Ok(Self { root, target, packages })
    }

    /// Members under `folder` that become components.
    pub(crate) fn components<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a Package> {
        self.packages.iter().filter(move |p| p.is_component && p.folder.starts_with(folder))
    }

    /// Builds the product's binary. Features are chosen for the whole workspace, so tests don't build dependencies again.
    ///
    /// # Errors
    /// It does not build.
    pub(crate) fn build_binary(&self) -> Result<()> {
        let mut build = cargo();
        build.args(["build", "--release", "--workspace", "--bin", "sluicegate"]);
        run::run(build.current_dir(&self.root))
    }

    /// The product's binary in the release profile.
    pub(crate) fn binary(&self) -> PathBuf {
        self.target.join("release/sluicegate")
    }
}

impl Package {
    fn read(package: &Value, root: &Path) -> Result<Self> {
        let name = text(package, "name")?.to_owned();
        let manifest = Path::new(text(package, "manifest_path")?);
        let folder = manifest.parent().and_then(|f| f.strip_prefix(root).ok());
        let folder = folder.with_context(|| format!("package {name} lies outside the workspace"))?.to_owned();
        let is_component =
            array(package, "targets").any(|t| array(t, "crate_types").any(|kind| kind.as_str() == Some("cdylib")));
        let uses = array(package, "dependencies")
            .filter(|d| d["path"].is_string() && d["kind"] != "dev")
            .filter_map(|d| d["name"].as_str().map(str::to_owned))
            .collect();
        Ok(Self { name, folder, is_component, uses })
    }

    /// The last part of its folder: `plugins/deepseek` is `deepseek`.
    pub(crate) fn short_name(&self) -> String {
        self.folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// The Cargo that runs this task, without what it told this task about `xtask`: a dependency's build script that looks
/// at `CARGO_MANIFEST_DIR` would run again, with all that stands on it, when people call Cargo themselves.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let of_this_package = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "CARGO_CRATE_"];
        if name.to_str().is_some_and(|name| of_this_package.iter().any(|start| name.starts_with(start))) {
            cargo.env_remove(name);
        }
    }
    cargo
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has no `{key}`"))
}

fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Replaces a file in one step, so that nobody reads half of it.
///
/// # Errors
/// The folder is not writable or the disk is full.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    // Watchers of the folder look at `.wasm` names; the temporary name is not one.
    let temporary = path.with_extension(format!("tmp{}", std::process::id()));
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    written.with_context(|| format!("cannot write {}", path.display()))
}
