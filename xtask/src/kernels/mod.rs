//! `cargo xtask kernels`: compiles the CUDA kernels with a pinned nvcc, checks what came out, and keeps docs/cuda-kernels.md true.

mod nvcc;
mod report;
mod roofline;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use crate::workspace::{Workspace, write_atomically};
use nvcc::Nvcc;
use report::Usage;

/// GPUs that get machine code: Hopper, Blackwell (data centre), Blackwell (workstation). The families cover B300 and GB10.
const MACHINES: [&str; 3] = ["90a", "100f", "120f"];
/// What a test run compiles for: the one that has FP4 instructions in a kernel of ours.
const CHECKED: [&str; 1] = ["120f"];
/// Anything else translates this when it loads.
const FALLBACK: &str = "80";
/// What stands in the documentation between these lines is written by this command.
const MARKS: [&str; 2] = ["<!-- written by `cargo xtask kernels --write` -->", "<!-- end -->"];

/// Compiles for every GPU and checks; with `write` also renews the tables in the documentation.
///
/// # Errors
/// nvcc cannot be had, a source does not compile, a kernel spills or has a stack frame, FP4 instructions are missing, or the
/// documentation's tables are out of date.
pub(crate) fn build(workspace: &Workspace, write: bool) -> Result<()> {
    let nvcc = Nvcc::ensure(&workspace.target)?;
    let out = workspace.target.join("kernels");
    let usages = compile(&nvcc, workspace, &MACHINES, &out)?;
    let page = workspace.root.join("docs/cuda-kernels.md");
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let new = with_tables(&text, &format!("{}\n{}", report::table(&usages, &MACHINES), roofline::table()))?;
    if new == text {
        let kernels = usages.len() / MACHINES.len();
        eprintln!("    {kernels} kernels for {}; fatbins in {}", MACHINES.join(", "), out.display());
    } else if write {
        write_atomically(&page, new.as_bytes())?;
        eprintln!("    wrote {}", page.display());
    } else {
        bail!("the tables in {} are out of date: run `cargo xtask kernels --write`", page.display());
    }
    Ok(())
}

/// The part of it that every test run does: one GPU's machine code, and the PTX that tests interpret. Where there is no nvcc to be
/// had it says so and goes on.
///
/// # Errors
/// A source does not compile, a kernel spills or has a stack frame, or FP4 instructions are missing.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let nvcc = match Nvcc::ensure(&workspace.target) {
        Ok(nvcc) => nvcc,
        Err(error) => {
            eprintln!("    SKIPPED: {error:#}");
            eprintln!(
                "    not checked: registers, spills and FP4 instructions of the CUDA kernels; their PTX is not interpreted"
            );
            return Ok(());
        }
    };
    let usages = compile(&nvcc, workspace, &CHECKED, &workspace.target.join("ptx"))?;
    eprintln!("    {} kernels for sm_{}, without spills", usages.len(), CHECKED[0]);
    Ok(())
}

/// Compiles all sources for these machines, PTX to `target/ptx`, and checks what came out.
fn compile(nvcc: &Nvcc, workspace: &Workspace, machines: &[&str], out: &Path) -> Result<Vec<Usage>> {
    let ptx = workspace.target.join("ptx");
    fs::create_dir_all(out)?;
    fs::create_dir_all(&ptx)?;
    let usages = compile_all(nvcc, machines, &sources(&workspace.root)?, (out, &ptx))?;
    report::check(&usages)?;
    check_fp4(&ptx)?;
    Ok(usages)
}

fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("kernels/cuda");
    let mut found = Vec::new();
    for entry in folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "cu") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// One fatbin and one PTX file for each source, as many at a time as there are cores.
fn compile_all(nvcc: &Nvcc, machines: &[&str], sources: &[PathBuf], (out, ptx): (&Path, &Path)) -> Result<Vec<Usage>> {
    let next = Mutex::new(sources.iter());
    let done = Mutex::new((Vec::new(), None));
    let work = || {
        while let Some(source) = next.lock().ok().and_then(|mut s| s.next()) {
            let stem = source.file_stem().unwrap_or_default();
            let fatbin = out.join(stem).with_extension("fatbin");
            let result = nvcc.compile(source, (machines, FALLBACK), &fatbin, ptx).map(|log| report::read(&log));
            let Ok(mut done) = done.lock() else { return };
            match result {
                Ok(usages) => done.0.extend(usages),
                Err(error) => done.1 = Some(error),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    match done.into_inner() {
        Ok((mut usages, None)) => {
            usages.sort();
            Ok(usages)
        }
        Ok((_, Some(error))) => Err(error),
        Err(_) => bail!("a compiling thread panicked"),
    }
}

/// The macro that guards the FP4 instructions differs between `a` and `f` targets, and a wrong guard leaves a trap behind silently.
fn check_fp4(folder: &Path) -> Result<()> {
    let path = folder.join("gemm_w4a4.120f.ptx");
    let ptx = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (products, traps) = (ptx.matches("mxf4nvf4").count(), ptx.matches("trap;").count());
    if products == 0 || traps > 0 {
        bail!("{}: {products} FP4 products and {traps} traps for sm_120f", path.display());
    }
    Ok(())
}

fn with_tables(text: &str, tables: &str) -> Result<String> {
    let start = text.find(MARKS[0]).context("docs/cuda-kernels.md has lost the mark in front of its tables")?;
    let end =
        start + text[start..].find(MARKS[1]).context("docs/cuda-kernels.md has lost the mark behind its tables")?;
    Ok(format!("{}{}\n\n{tables}\n{}", &text[..start], MARKS[0], &text[end..]))
}
