//! Python: the interpreter and a virtual environment with pinned packages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::workspace::{Workspace, write_atomically};
use crate::{apt, run};

/// Checks that a Python with pip and venv is there, installing Debian's where that is possible.
///
/// # Errors
/// There is none, and it cannot be installed.
pub(crate) fn ensure() -> Result<()> {
    if is_complete() {
        return Ok(());
    }
    apt::ensure(&["python3", "python3-pip", "python3-venv"])
        .context("Python 3 with pip and venv is needed (the demo model comes in a PyPI package)")
}

fn is_complete() -> bool {
    let mut command = Command::new("python3");
    command.args(["-c", "import pip, venv, ensurepip, zipfile"]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// `python3 -m pip` without questions and self-advertisement.
pub(crate) fn pip() -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "--disable-pip-version-check", "--no-input"]);
    command
}

/// What turns Python into a component; pinned, since its bindings' names are what the example's modules are called.
const COMPONENTIZE: &str = "componentize-py==0.25.1";

/// Builds `docs/examples/python` to `target/examples/py-example.wasm`. It imports nothing: WASI is stubbed out.
///
/// # Errors
/// Python or the package cannot be had, or the example does not fit the contract.
pub(crate) fn plugin(workspace: &Workspace) -> Result<()> {
    let venv = workspace.root.join("target/venv-plugin");
    environment(&venv, &[COMPONENTIZE])?;
    let component = workspace.root.join("target/examples/py-example.wasm");
    if let Some(folder) = component.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut build = Command::new(venv.join("bin/componentize-py"));
    build.arg("-d").arg(workspace.root.join("wit")).args(["-w", "parser-plugin", "componentize", "--stub-wasi"]);
    build.arg("-p").arg(workspace.root.join("docs/examples/python")).arg("app").arg("-o").arg(&component);
    run::run(&mut build)?;
    eprintln!("    {}", component.display());
    Ok(())
}

/// A virtual environment in `folder` with exactly these requirements. Returns its interpreter.
///
/// # Errors
/// Python is missing or a package cannot be had.
pub(crate) fn environment(folder: &Path, requirements: &[&str]) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    let marker = folder.join("requirements.txt");
    let wanted = requirements.join("\n");
    if std::fs::read_to_string(&marker).is_ok_and(|present| present == wanted) {
        return Ok(python);
    }
    ensure()?;
    run::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]).args(requirements);
    run::run(&mut install)?;
    write_atomically(&marker, wanted.as_bytes())?;
    Ok(python)
}
