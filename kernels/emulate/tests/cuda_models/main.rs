//! Whole models through the CUDA executor on the stand-in driver, against the CPU executor and the golden data.

mod draws;
mod drive;
mod golden;
mod gpus;
mod knobs;
mod trained;
mod tune;
mod w4a4;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sluicegate_emulate::host::{IMAGE, StandIn, Toolchain};

/// Set to run on this machine's GPU with this binary's kernels, instead of on the stand-in: `cargo xtask device-check` does.
const REAL: &str = "SLUICEGATE_TEST_GPU";

fn is_real() -> bool {
    std::env::var_os(REAL).is_some()
}

/// The stand-in's image; the binary's own kernels on a real GPU.
fn kernels() -> Option<&'static [&'static [u8]]> {
    const STAND_IN: &[&[u8]] = &[IMAGE];
    (!is_real()).then_some(STAND_IN)
}

/// One driver a process.
static TURN: Mutex<()> = Mutex::new(());

/// Folder of the golden data.
fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../backend/tests/golden")
}

/// A golden model's folder.
fn model(name: &str) -> PathBuf {
    goldens().join("models").join(name)
}

/// Runs a test on two stand-in GPUs, whose work is done in the order of `seed`.
fn with_driver(seed: u32, test: impl FnOnce()) {
    if is_real() {
        return test();
    }
    let Some(toolchain) = Toolchain::find() else {
        eprintln!("skipped: there is no C++ compiler to build the stand-in driver with");
        return;
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    StandIn { devices: 2, seed, ..StandIn::default() }.load(&toolchain).unwrap_or_else(|e| panic!("{e:#}"));
    test();
}
