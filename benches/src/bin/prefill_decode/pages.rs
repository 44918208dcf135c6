//! Throughput of a link, with a device that computes nothing and holds pages as large as a small model's.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use sluicegate_backend::api::{Event, GenerateRequest, Sampling};
use sluicegate_backend::engine::{Config, Engine, PrefillPeer, PrefillServer, Secret, Workers};
use sluicegate_backend::exec::{
    CacheReader, CacheSpec, Capacity, ExecError, Executor, ModelSpec, Plan, PoolSpec, Sampled,
};

use crate::{copy, median};

/// Tokens of a block; layers, and bytes of a token in one: SmolLM2-135M's 3 heads of 64, keys and values in BF16.
const BLOCK: u32 = 16;
const LAYERS: u32 = 30;
const ROW: u32 = 2 * 3 * 64 * 2;
/// Tokens of a prompt.
const TOKENS: usize = 4096;
const ROUNDS: usize = 9;

/// A device whose blocks are memory.
struct Memory {
    spec: ModelSpec,
    blocks: Vec<u8>,
}

impl Memory {
    fn new() -> Box<Self> {
        let pool = |layer| PoolSpec { name: "kv", layer, tokens_per_row: 1, row_bytes: ROW };
        let cache = CacheSpec { block_tokens: BLOCK, pools: (0..LAYERS).map(pool).collect(), ..CacheSpec::default() };
        let spec =
            ModelSpec { architecture: "Memory".into(), vocab_size: 8, context_length: 8192, eos_ids: vec![0], cache };
        let bytes = (0..512 * (BLOCK * LAYERS * ROW) as usize).map(|i| i as u8).collect();
        Box::new(Self { spec, blocks: bytes })
    }

    /// Where these pools of a block are.
    fn at(&self, block: u32, pools: Range<usize>) -> Range<usize> {
        let cache = &self.spec.cache;
        let from = block as usize * cache.block_bytes() + cache.pool_bytes(0..pools.start);
        from..from + cache.pool_bytes(pools)
    }
}

impl Executor for Memory {
    fn model(&self) -> &ModelSpec {
        &self.spec
    }

    fn capacity(&self) -> Capacity {
        Capacity { blocks: 512, sequences: 4, rows: 512 }
    }

    fn run(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError> {
        out.extend(plan.samples.iter().map(|_| Sampled { id: 1, logprobs: None }));
        Ok(())
    }

    fn reset_slot(&mut self, _: u32) {}

    fn write_pools(&mut self, block: u32, pools: Range<usize>, bytes: &[u8]) {
        let at = self.at(block, pools);
        self.blocks[at].copy_from_slice(bytes);
    }

    fn write_state(&mut self, _: u32, _: &[u8]) {}
}

impl CacheReader for Memory {
    fn cache(&self) -> &CacheSpec {
        &self.spec.cache
    }

    fn read_pools(&self, block: u32, pools: Range<usize>, out: &mut [u8]) {
        out.copy_from_slice(&self.blocks[self.at(block, pools)]);
    }

    fn read_state(&self, _: u32, _: &mut [u8]) {}
}

/// Measures and prints.
pub(crate) fn measure() -> Result<()> {
    let config = Config { enable_prefix_caching: false, max_num_batched_tokens: 512, ..Config::default() };
    let secret = Secret::new("both ends are in this process").context("long enough")?;
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = PrefillServer::start(Memory::new(), &config, any_port, secret.clone())?;
    let prefill = PrefillPeer { address: server.address(), secret };
    let engine = Engine::start(Workers::Remote { prefill, decode: Memory::new() }, &config)?;
    let bytes = TOKENS.div_ceil(BLOCK as usize) * (BLOCK * LAYERS * ROW) as usize;
    let (mut plain, mut link) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let took = (copy::seconds(bytes)?, first_token(&engine)?);
        // The first round warms memory and makes the link.
        if round > 0 {
            plain.push(took.0);
            link.push(took.1);
        }
    }
    let (plain, link) = (median(plain), median(link));
    let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
    println!("{:.1} MB of pages, medians of {ROUNDS}:", bytes as f64 / 1e6);
    println!("  plain loopback copy  {:6.2} GB/s", rate(plain));
    println!("  link, to first token {:6.2} GB/s  ({:.0} % of the copy)", rate(link), 100.0 * plain / link);
    Ok(())
}

fn first_token(engine: &Engine) -> Result<f64> {
    let request = GenerateRequest {
        id: "bench".into(),
        prompt: vec![2; TOKENS],
        sampling: Sampling::default(),
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
    let mut first = None;
    while let Some(event) = generation.blocking_recv() {
        match event {
            Event::Token { .. } => first = first.or(Some(began.elapsed())),
            Event::Failed(error) => return Err(error.into()),
            Event::Stage(_) | Event::Cached(_) | Event::Finished { .. } => {}
        }
    }
    ensure!(first.is_some(), "no token came");
    Ok(first.unwrap_or_default().as_secs_f64())
}
