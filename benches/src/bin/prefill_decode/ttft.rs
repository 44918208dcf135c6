//! Time to the first token of a long prompt: in one process, and with the prompt computed behind a link.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use sluicegate_backend::api::{Event, GenerateRequest, Sampling};
use sluicegate_backend::engine::{Config, Engine, PrefillPeer, PrefillServer, Secret, Workers};
use sluicegate_backend::exec::Executor;
use sluicegate_backend::run::{CpuRunOptions, open_cpu};

use crate::median;

const ROUNDS: usize = 5;

/// Measures and prints.
pub(crate) fn measure(model: &Path, tokens: usize) -> Result<()> {
    let open = || -> Result<Box<dyn Executor>> {
        let runner = open_cpu(model, &CpuRunOptions::default());
        Ok(Box::new(runner.with_context(|| model.display().to_string())?))
    };
    let config = Config { enable_prefix_caching: false, ..Config::default() };
    let one = Engine::start(Workers::Both(open()?), &config)?;
    let secret = Secret::new("both ends are in this process").context("long enough")?;
    let server = PrefillServer::start(open()?, &config, SocketAddr::from(([127, 0, 0, 1], 0)), secret.clone())?;
    let prefill = PrefillPeer { address: server.address(), secret };
    let apart = Engine::start(Workers::Remote { prefill, decode: open()? }, &config)?;
    let (mut same, mut linked) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        // Alternately, so that a machine that gets slower does it to both.
        let took = (first_token(&one, tokens, round)?, first_token(&apart, tokens, round)?);
        if round > 0 {
            same.push(took.0);
            linked.push(took.1);
        }
    }
    let (same, linked) = (median(same), median(linked));
    println!("time to the first token of {tokens} tokens, medians of {ROUNDS}:");
    println!("  one process          {:8.1} ms", same * 1e3);
    println!("  prefill behind a link{:8.1} ms  ({:.3} times)", linked * 1e3, linked / same);
    Ok(())
}

fn first_token(engine: &Engine, tokens: usize, round: usize) -> Result<f64> {
    let vocabulary = engine.model().vocab_size as usize;
    let request = GenerateRequest {
        id: "bench".into(),
        prompt: (0..tokens).map(|i| ((i * 7919 + round * 31) % vocabulary) as u32).collect(),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stop_ids: vec![],
        max_tokens: 1,
        logprobs: None,
        grammar: None,
        priority: 0,
        deadline: None,
        share: 0,
    };
    let began = Instant::now();
    let mut generation = engine.submit(request)?;
    while let Some(event) = generation.blocking_recv() {
        match event {
            Event::Token { .. } => return Ok(began.elapsed().as_secs_f64()),
            Event::Failed(error) => return Err(error.into()),
            Event::Stage(_) | Event::Cached(_) | Event::Finished { .. } => {}
        }
    }
    bail!("no token came")
}
