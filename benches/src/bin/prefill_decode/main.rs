//! What moving a prompt's KV between two workers costs: throughput of a link, and time to the first token.
//!
//! `cargo run --release -p sluicegate-benches --bin prefill_decode [MODEL_FOLDER [TOKENS]]`
//!
//! First the pages of a prompt through a link, against the same bytes copied over a plain loopback connection in the same
//! run. Then, with a model folder, the time to the first token of a long prompt in one process and through a link.

mod copy;
mod pages;
mod ttft;

use std::path::PathBuf;

use anyhow::Result;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().map(PathBuf::from);
    let tokens = arguments.next().map_or(Ok(2000), |n| n.parse())?;
    pages::measure()?;
    if let Some(model) = model {
        ttft::measure(&model, tokens)?;
    }
    Ok(())
}

/// The middle one.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
