//! Commands around the CUDA kernels: planted bugs, and the check of a GPU. `cargo xtask` calls it.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use sluicegate_emulate::host::Toolchain;
use sluicegate_emulate::{check, mutate};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Says whether all was well.
fn run(args: &[&str]) -> Result<bool> {
    match args {
        ["mutate"] => {
            let toolchain = Toolchain::find().context("there is no C++ compiler: install g++, or name one in CXX")?;
            mutate::all(&toolchain).map(|()| true)
        }
        ["device-check"] => check::device(false),
        ["device-check", "--stand-in"] => check::device(true),
        _ => bail!("usage: sluicegate-emulate mutate | device-check [--stand-in]"),
    }
}
