//! Every case on a device, through the driver: right or wrong, and how long the launches take.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sluicegate_kernels::cuda::device::{Bench, gpus};
use sluicegate_kernels::ops::DeviceError;

use crate::cases::{Case, GROUPS};
use crate::host::{IMAGE, StandIn, Toolchain};
use crate::ptx::target;

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Kernel and shape.
    pub name: String,
    /// What is wrong, if anything is.
    pub wrong: Option<String>,
    /// Median of repeated runs of its launches.
    pub time: Option<Duration>,
}

/// Runs all cases in order. `timing` is how often: outer repeats, whose median is told, of inner runs.
///
/// # Errors
/// The device failed; it is unusable then.
pub fn run_cases(bench: &mut Bench, timing: Option<(u32, u32)>) -> Result<Vec<Outcome>, DeviceError> {
    let cases = GROUPS.iter().flat_map(|group| (group.cases)());
    cases.map(|case| run_case(bench, &case, timing)).collect()
}

fn run_case(bench: &mut Bench, case: &Case, timing: Option<(u32, u32)>) -> Result<Outcome, DeviceError> {
    let mut program = case.program.clone();
    bench.run(&mut program.buffers, &program.calls)?;
    let wrong = (case.check)(&program).err();
    let time = match timing {
        None => None,
        Some(repeats) => {
            let mut times = bench.time(&case.program.buffers, &case.program.calls, repeats)?;
            times.sort();
            times.get(times.len() / 2).copied()
        }
    };
    Ok(Outcome { name: case.name.clone(), wrong, time })
}

/// Runs all cases on the first GPU and prints a table; says whether everything was right. `stand_in` runs them on the stand-in driver.
///
/// # Errors
/// No driver, GPU or kernels, or the device failed.
pub fn device(stand_in: bool) -> Result<bool> {
    let images = if stand_in {
        let toolchain = Toolchain::find().context("the stand-in driver needs a C++ compiler")?;
        StandIn::default().load(&toolchain)?;
        vec![IMAGE.to_vec()]
    } else {
        fatbins(&target("kernels"))?
    };
    let gpu = gpus()?.into_iter().next().context("no GPU")?;
    let (major, minor) = gpu.capability;
    println!("{}, compute capability {major}.{minor}, {:.1} GiB", gpu.name, gpu.memory as f64 / f64::from(1 << 30));
    let images: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
    let mut bench = Bench::open(gpu.ordinal, &images)?;
    // Times of the stand-in mean nothing.
    let outcomes = run_cases(&mut bench, (!stand_in).then_some((9, 50)))?;
    let mut wrong = 0;
    for outcome in &outcomes {
        let time = outcome.time.map_or_else(|| "      -".into(), |t| format!("{:7.1}", t.as_secs_f64() * 1e6));
        let verdict = outcome.wrong.as_deref().map_or("right", |why| {
            wrong += 1;
            why
        });
        println!("{time} us  {:<44} {verdict}", outcome.name);
    }
    println!("{} cases, {wrong} wrong", outcomes.len());
    println!("not run: bandwidth and FLOP ceilings, whole models");
    Ok(wrong == 0)
}

fn fatbins(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let entries = folder.read_dir().map(|entries| entries.filter_map(Result::ok).map(|e| e.path()).collect());
    let mut files: Vec<PathBuf> = entries.unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|e| e == "fatbin"));
    files.sort();
    if files.is_empty() {
        bail!("no compiled kernels in {}; run `cargo xtask kernels`", folder.display());
    }
    let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    files.iter().map(read).collect()
}
