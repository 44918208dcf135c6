//! The check of a GPU, through the driver: every case, right or wrong, and how long large launches take.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sluicegate_kernels::cuda::device::{Bench, gpus};
use sluicegate_kernels::ops::DeviceError;

use crate::cases::{Case, GROUPS};
use crate::host::{IMAGE, StandIn, Toolchain};
use crate::ptx::target;
use crate::shapes::shapes;

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Kernel and shape.
    pub name: String,
    /// What is wrong, if anything is.
    pub wrong: Option<String>,
}

/// Runs all cases in order.
///
/// # Errors
/// The device failed; it is unusable then.
pub fn run_cases(bench: &mut Bench) -> Result<Vec<Outcome>, DeviceError> {
    let cases = GROUPS.iter().flat_map(|group| (group.cases)());
    cases.map(|case| run_case(bench, &case)).collect()
}

fn run_case(bench: &mut Bench, case: &Case) -> Result<Outcome, DeviceError> {
    let mut program = case.program.clone();
    bench.run(&mut program.buffers, &program.calls)?;
    Ok(Outcome { name: case.name.clone(), wrong: (case.check)(&program).err() })
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
    print_shapes(&mut bench, stand_in)?;
    let outcomes = run_cases(&mut bench)?;
    let wrong = outcomes.iter().filter(|o| o.wrong.is_some()).count();
    for outcome in &outcomes {
        println!("{:<60} {}", outcome.name, outcome.wrong.as_deref().unwrap_or("right"));
    }
    println!("{} cases, {wrong} wrong", outcomes.len());
    println!("not measured: a FLOP ceiling; Tflop/s are to be compared with the card's data sheet");
    Ok(wrong == 0)
}

/// The ceiling of memory, then launches as large as a model's, each as a share of what that ceiling allows.
fn print_shapes(bench: &mut Bench, stand_in: bool) -> Result<()> {
    // Times of the stand-in mean nothing.
    let (scale, repeats, copied) = if stand_in { (32, (1, 1), 1 << 20) } else { (1, (9, 20), 1 << 30) };
    let bandwidth = bench.bandwidth(copied)?;
    println!("memory: {:.0} GB/s copied, read and written", bandwidth / 1e9);
    for shape in shapes(scale) {
        let mut times = bench.time(&shape.program.buffers, &shape.program.calls, repeats)?;
        times.sort();
        let time = times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64();
        let (share, speed) = (shape.bytes / bandwidth / time, shape.operations / time);
        let [micros, percent, tera] = [time * 1e6, share * 100.0, speed / 1e12];
        println!("{:<34} {micros:9.1} us  {percent:5.1} % of memory's ceiling  {tera:7.1} Tflop/s", shape.name);
    }
    Ok(())
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
