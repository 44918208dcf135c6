//! What has to be built before these tests run, and where it lies.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

const PREPARE: &str = "prepare with `cargo xtask test` (or its part `cargo xtask prepare`)";

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    ensure!(path.exists(), "{} is missing; {PREPARE}", path.display());
    Ok(path)
}

/// The product's binary: the one that `SLUICEGATE_BIN` names, else the one from the build that made this test
/// (`target/release/sluicegate` beside `target/release/deps`).
///
/// # Errors
/// It has not been built.
pub fn binary() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("SLUICEGATE_BIN") {
        return existing(named.into());
    }
    let this = std::env::current_exe().context("where am I?")?;
    let profile = this.ancestors().nth(2).context("a test lies in target/PROFILE/deps")?;
    existing(profile.join("sluicegate"))
}

/// Compiled components, shared by all servers of all tests: a start then costs no compilation.
pub(crate) fn compiled_plugins() -> PathBuf {
    root().join("target/compiled-plugins")
}

/// A plugin's component.
///
/// # Errors
/// It has not been built.
pub fn component(name: &str) -> Result<PathBuf> {
    existing(root().join("target/plugins").join(format!("{name}.wasm")))
}

/// The bytes of a plugin's component.
///
/// # Errors
/// It has not been built.
pub fn component_bytes(name: &str) -> Result<Vec<u8>> {
    Ok(std::fs::read(component(name)?)?)
}

/// A test guest's component.
///
/// # Errors
/// It has not been built.
pub fn guest(name: &str) -> Result<PathBuf> {
    existing(root().join("target/test-plugins").join(format!("{name}.wasm")))
}

/// The bytes of a test guest's component.
///
/// # Errors
/// It has not been built.
pub fn guest_bytes(name: &str) -> Result<Vec<u8>> {
    Ok(std::fs::read(guest(name)?)?)
}

/// A model folder.
///
/// # Errors
/// It has not been imported.
pub fn model(name: &str) -> Result<PathBuf> {
    existing(root().join("models").join(name).join("config.json"))?;
    Ok(root().join("models").join(name))
}

/// A folder of golden data.
///
/// # Errors
/// It is not there.
pub fn golden(name: &str) -> Result<PathBuf> {
    existing(root().join("backend/tests/golden").join(name))
}

/// The interpreter that has the client libraries, and a script of `tests/python/`.
///
/// # Errors
/// The environment has not been made.
pub fn python(script: &str) -> Result<(PathBuf, PathBuf)> {
    Ok((existing(root().join("target/venv/bin/python"))?, existing(root().join("tests/python").join(script))?))
}
