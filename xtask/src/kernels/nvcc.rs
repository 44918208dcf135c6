//! NVIDIA's compiler from four pinned PyPI wheels. It needs a host g++ and nothing else: no driver, no toolkit, no GPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{apt, python, run};

/// 13.0 is the newest whose PTX every driver of the 580 series translates.
const WHEELS: [&str; 4] =
    ["nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-runtime==13.0.96"];

/// The compiler.
pub(crate) struct Nvcc {
    program: PathBuf,
}

impl Nvcc {
    /// The compiler of `NVCC`, or the pinned one, which is fetched where it is missing (about 100 MB).
    ///
    /// # Errors
    /// PyPI cannot be reached, or there is no host compiler.
    pub(crate) fn ensure(target: &Path) -> Result<Self> {
        if let Some(program) = std::env::var_os("NVCC") {
            return Ok(Self { program: program.into() });
        }
        apt::ensure(&["g++"])?;
        let folder = target.join("nvcc-13.0.88");
        let program = folder.join("nvidia/cu13/bin/nvcc");
        if !program.exists() {
            python::ensure()?;
            let partial = target.join("nvcc-partial");
            if partial.exists() {
                fs::remove_dir_all(&partial)?;
            }
            let mut install = python::pip();
            install.args(["install", "--quiet", "--no-deps", "--target"]).arg(&partial).args(WHEELS);
            run::run(&mut install).context("nvcc comes from PyPI; set NVCC to use one that is installed")?;
            fs::rename(&partial, &folder)?;
        }
        Ok(Self { program })
    }

    /// Compiles a source to a fatbin of machine code and fallback PTX, and leaves the PTX of every architecture in `ptx`, as
    /// `STEM.ARCHITECTURE.ptx`. Returns what ptxas said.
    ///
    /// # Errors
    /// The source does not compile.
    pub(crate) fn compile(
        &self,
        source: &Path,
        (machines, fallback): (&[&str], &str),
        fatbin: &Path,
        ptx: &Path,
    ) -> Result<String> {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let scratch = ptx.join(format!("{stem}.scratch"));
        fs::create_dir_all(&scratch)?;
        let mut command = Command::new(&self.program);
        // No fast mathematics, ever: it flushes subnormals to zero, which decoding FP4 and FP8 relies on.
        command.args(["-std=c++17", "-O3", "-fatbin", "-Xptxas=-v", "-keep", "-keep-dir"]).arg(&scratch);
        for machine in machines {
            command.arg(format!("-gencode=arch=compute_{machine},code=sm_{machine}"));
        }
        command.arg(format!("-gencode=arch=compute_{fallback},code=compute_{fallback}"));
        let log = finish(command.arg("-o").arg(fatbin).arg(source))?;
        for machine in machines.iter().chain([&fallback]) {
            let made = scratch.join(format!("{stem}.compute_{machine}.ptx"));
            fs::rename(&made, ptx.join(format!("{stem}.{machine}.ptx")))
                .with_context(|| format!("nvcc left no {}", made.display()))?;
        }
        fs::remove_dir_all(&scratch)?;
        Ok(log)
    }
}

fn finish(command: &mut Command) -> Result<String> {
    let text = run::display(command);
    let output = command.output().with_context(|| format!("cannot start `{text}`"))?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        bail!("`{text}` failed:\n{log}");
    }
    Ok(log)
}
