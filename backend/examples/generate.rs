//! Token ids in, token ids out: greedy decoding of one sequence on the CPU.
//!
//! `cargo run --release -p sluicegate-backend --example generate -- MODEL_DIR N_TOKENS ID...`

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sluicegate_backend::api::Sampling;
use sluicegate_backend::exec::{Executor, Plan, PlanSequence, SampleRow};
use sluicegate_backend::run::{CpuRunOptions, open_cpu};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, count, prompt @ ..] = &args[..] else {
        return Err("usage: generate MODEL_DIR N_TOKENS ID...".into());
    };
    let prompt: Vec<u32> = prompt.iter().map(|id| id.parse()).collect::<Result<_, _>>()?;
    let started = Instant::now();
    let options = match std::env::var("REFERENCE") {
        Ok(_) => CpuRunOptions::reference(),
        Err(_) => CpuRunOptions::default(),
    };
    let mut runner = open_cpu(Path::new(dir), &options)?;
    eprintln!("loaded in {:.2} s", started.elapsed().as_secs_f64());

    let sampling = Arc::new(Sampling { temperature: 0.0, ..Sampling::default() });
    let mut tokens = prompt;
    let (mut cached, mut drawn) = (0, Vec::new());
    for step in 0..count.parse::<usize>()? {
        let started = Instant::now();
        let rows = (tokens.len() - cached) as u32;
        let table: Vec<u32> = (0..tokens.len().div_ceil(runner.model().cache.block_tokens as usize) as u32).collect();
        let sample = SampleRow {
            row: rows - 1,
            sampling: Arc::clone(&sampling),
            position: tokens.len() as u32,
            history: None,
            prompt_len: 0,
            mask: None,
            logprobs: None,
        };
        let sequence =
            PlanSequence { row: 0, rows, start: cached as u32, table: 0, table_len: table.len() as u32, slot: 0 };
        let plan = Plan {
            tokens: tokens[cached..].to_vec(),
            sequences: vec![sequence],
            block_tables: table,
            samples: vec![sample],
        };
        runner.run(&plan, &mut drawn)?;
        cached = tokens.len();
        tokens.push(drawn[0].id);
        eprintln!("step {step}: {rows} rows, {:.2} ms", started.elapsed().as_secs_f64() * 1e3);
    }
    println!("{:?}", &tokens[args.len() - 2..]);
    Ok(())
}
