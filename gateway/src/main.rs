//! The `sluicegate` binary.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    sluicegate::cli::Cli::parse().run()
}
