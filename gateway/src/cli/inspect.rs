//! `sluicegate inspect`: what a model folder is and what serving it takes.

use std::path::PathBuf;

use clap::Args;
use sluicegate_backend::inspect::{Drafter, Inspection, inspect};

use crate::config::Numbers;

/// Arguments of `sluicegate inspect`.
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// Model folder.
    dir: PathBuf,
    /// Number formats.
    #[command(flatten)]
    numbers: Numbers,
    /// Device memory in GiB: say how much context fits.
    #[arg(long, value_name = "GIB")]
    memory: Vec<f64>,
    /// Tokens that one step may run, for the size of activations.
    #[arg(long, default_value_t = 512)]
    max_num_batched_tokens: usize,
}

impl Inspect {
    /// Prints what was found.
    ///
    /// # Errors
    /// All that is wrong with the folder.
    pub(super) fn run(self) -> anyhow::Result<()> {
        print(&inspect(&self.dir, self.numbers.dtypes(), self.max_num_batched_tokens)?, &self.memory);
        Ok(())
    }
}

fn print(found: &Inspection, memory: &[f64]) {
    let (c, mb) = (&found.config, |bytes: usize| bytes as f64 / 1e6);
    println!("architecture   {}", c.architecture);
    println!("layers         {}, hidden {}, vocabulary {}", c.num_hidden_layers, c.hidden_size, c.vocab_size);
    println!("context        {} tokens", c.max_position_embeddings);
    println!("parameters     {:.2} M", found.parameters() as f64 / 1e6);
    for (format, share) in &found.formats {
        let (parameters, bytes) = (share.parameters as f64 / 1e6, share.bytes as f64 / 1e6);
        println!("  {format:<12} {parameters:>12.2} M  {bytes:>12.2} MB");
    }
    println!("weights        {:.2} MB on the device", mb(found.weights));
    println!("activations    {:.2} MB for {} tokens a step", mb(found.activations), found.rows);
    println!("KV per token   {:.1} bytes, in blocks of {}", found.kv_bytes_per_token(), found.cache.block_tokens);
    let mut pools: Vec<(&str, usize, usize)> = Vec::new();
    for p in &found.cache.pools {
        let bytes = (found.cache.block_tokens / p.tokens_per_row * p.row_bytes) as usize;
        match pools.iter_mut().find(|(name, ..)| *name == p.name) {
            Some((_, layers, sum)) => (*layers, *sum) = (*layers + 1, *sum + bytes),
            None => pools.push((p.name, 1, bytes)),
        }
    }
    for (name, layers, bytes) in pools {
        let per_token = bytes as f64 / f64::from(found.cache.block_tokens);
        println!("  {name:<12} {layers:>4} layers {per_token:>12.1} bytes");
    }
    match &found.drafter {
        None => {}
        Some(Drafter { share, cost: Ok(cost) }) => println!(
            "drafter        {:.2} M, {:.2} MB on the device, {:.1} KV bytes per token; runs only if speculative_config has the method mtp",
            share.parameters as f64 / 1e6,
            mb(cost.weights),
            cost.kv_bytes_per_token
        ),
        Some(Drafter { share, cost: Err(why) }) => {
            println!("drafter        {:.2} M, can't be run: {why}", share.parameters as f64 / 1e6);
        }
    }
    if found.cache.state_bytes() > 0 {
        println!("per sequence   {} bytes", found.cache.state_bytes());
    }
    for gib in memory {
        println!("{gib:>6} GiB     {} tokens of context", found.tokens_in((gib * f64::from(1 << 30)) as u64));
    }
}
