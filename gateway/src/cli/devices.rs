//! `sluicegate devices`: what `engine.device` may name on this machine.

use clap::Args;
use sluicegate_backend::run::{embedded_kernels, gpus};

/// Arguments of `sluicegate devices`.
#[derive(Debug, Args)]
pub(super) struct Devices {}

impl Devices {
    /// Prints a line for each device, and why there is no GPU if there is none.
    pub(super) fn run(self) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        println!("cpu     {cores} cores");
        match gpus() {
            Err(error) => println!("no GPU: {error}"),
            Ok(gpus) => {
                for gpu in gpus {
                    let ((major, minor), gib) = (gpu.capability, gpu.memory as f64 / f64::from(1 << 30));
                    println!("cuda:{:<2} {}, {gib:.1} GiB, compute capability {major}.{minor}", gpu.ordinal, gpu.name);
                }
            }
        }
        if embedded_kernels() == 0 {
            println!("This binary has no CUDA kernels: run `cargo xtask kernels`, then build again.");
        }
    }
}
