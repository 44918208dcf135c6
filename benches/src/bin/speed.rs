//! Decode and prefill speed of the native engine, load time and memory: the half of `cargo xtask bench` that is ours.
//!
//! `cargo run --release -p sluicegate-benches --bin speed -- models/SmolLM2-135M-Instruct [threads [what...]]`
//!
//! What is a number of sequences that generate together, or `prefill`; without any, all that the table in `docs/cpu.md` has.
//! Prints one JSON object a line; `benches/llama_cpp/speed.py` prints the same ones for llama.cpp. Speeds are per second of
//! wall time and per second of CPU time of the whole process; on a machine that does other work, only the latter means much.
//! At the end comes what a thread of this machine reads a second, and what the weights take: what bounds a single sequence.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use sluicegate_backend::api::{Event, GenerateRequest, Sampling};
use sluicegate_backend::engine::{Config, Engine, Generation, Workers};
use sluicegate_backend::run::{CpuRunOptions, open_cpu};
use sluicegate_benches::bandwidth;

/// Tokens of each generation, and of its prompt.
const TOKENS: u32 = 48;
const PROMPT: u32 = 8;
const PREFILL: u32 = 512;

/// Wall and CPU time since.
struct Watch(Instant, f64);

impl Watch {
    fn start() -> Self {
        Self(Instant::now(), cpu())
    }

    fn seconds(&self) -> (f64, f64) {
        (self.0.elapsed().as_secs_f64(), cpu() - self.1)
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().context("the first argument is a model folder")?;
    let threads: usize = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let mut what: Vec<String> = arguments.collect();
    if what.is_empty() {
        what.extend(["1", "4", "16", "64", "prefill"].map(String::from));
    }
    let watch = Watch::start();
    let options = CpuRunOptions { threads, ..CpuRunOptions::default() };
    let runner = open_cpu(Path::new(&model), &options)?;
    println!(r#"{{"what": "load", "seconds": {:.3}}}"#, watch.seconds().0);
    let weights = runner.device().weight_bytes();
    let config = Config { enable_prefix_caching: false, stream_tokens: 128, ..Config::default() };
    let engine = Engine::start(Workers::Both(Box::new(runner)), &config)?;
    finish(engine.submit(request(0, PROMPT, 4))?)?;
    for what in what {
        let watch = Watch::start();
        if what == "prefill" {
            finish(engine.submit(request(7, PREFILL, 1))?)?;
            let seconds = watch.seconds();
            println!(r#"{{"what": "first token", "seconds": {:.3}}}"#, seconds.0);
            print("prefill", 1, f64::from(PREFILL), seconds);
            continue;
        }
        let batch = what.parse().with_context(|| format!("{what} is neither a number of sequences nor prefill"))?;
        let running: Vec<Generation> =
            (0..batch).map(|i| Ok(engine.submit(request(i, PROMPT, TOKENS))?)).collect::<Result<_>>()?;
        running.into_iter().try_for_each(finish)?;
        print("decode", batch, f64::from(batch * TOKENS), watch.seconds());
    }
    println!(r#"{{"what": "memory", "megabytes": {:.0}}}"#, peak_megabytes()?);
    let (read, megabytes) = (bandwidth::of_bytes(weights)?, weights as f64 / 1e6);
    for (what, rate) in [("bandwidth", read.sequential / 1e9), ("most bandwidth", read.most / 1e9)] {
        println!(r#"{{"what": "{what}", "gigabytes_per_second": {rate:.2}, "weights_megabytes": {megabytes:.1}}}"#);
    }
    Ok(())
}

fn request(i: u32, prompt: u32, max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        id: "bench".into(),
        prompt: (0..prompt).map(|t| (i * 31 + t * 7) % 40_000 + 20).collect(),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stop_ids: Vec::new(),
        max_tokens,
        logprobs: None,
        grammar: None,
        priority: 0,
        deadline: None,
        share: 0,
    }
}

fn finish(mut generation: Generation) -> Result<()> {
    while let Some(event) = generation.blocking_recv() {
        if let Event::Failed(error) = event {
            return Err(error.into());
        }
    }
    Ok(())
}

fn print(what: &str, batch: u32, tokens: f64, (wall, cpu): (f64, f64)) {
    let (wall, cpu) = (tokens / wall, tokens / cpu);
    println!(r#"{{"what": "{what}", "batch": {batch}, "per_second": {wall:.1}, "per_cpu_second": {cpu:.1}}}"#);
}

#[allow(clippy::cast_precision_loss, reason = "seconds since the start of a process")]
fn cpu() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// The most memory that the process has had.
fn peak_megabytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}
