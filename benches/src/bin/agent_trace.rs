//! An agent's conversation on the native engine: what the prefix cache and prompt lookup win, turn by turn.
//!
//! `cargo run --release -p sluicegate-benches --bin agent_trace -- models/SmolLM2-135M-Instruct [turns]`
//!
//! Each turn appends a tool's JSON result and the model's answer to the conversation, as agents do. Prints, for every
//! set-up, the prompt tokens that were reused, time to first token, and decode speed; outputs must be the same in all.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sluicegate::text::Tokenizer;
use sluicegate_backend::api::{Event, GenerateRequest, Sampling};
use sluicegate_backend::draft::{Method, Speculation};
use sluicegate_backend::engine::{Config, Engine, Workers};
use sluicegate_backend::run::{CpuRunOptions, open_cpu};

/// Tokens of each answer.
const ANSWER: u32 = 48;

/// What one turn took.
struct Turn {
    prompt: usize,
    cached: u32,
    first: Duration,
    decode: Duration,
    tokens: Vec<u32>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().context("the first argument is a model folder")?;
    let turns: usize = arguments.next().map_or(Ok(8), |n| n.parse())?;
    let model = Path::new(&model);
    let plain = Config { stream_tokens: 256, ..Config::default() };
    let method = Method::Ngram { prompt_lookup_min: 2, prompt_lookup_max: 4 };
    let speculation = Some(Speculation { num_speculative_tokens: 4, disable_by_batch_size: 4, method });
    let setups = [
        ("no prefix cache", Config { enable_prefix_caching: false, ..plain.clone() }),
        ("prefix cache", plain.clone()),
        ("prefix cache, ngram drafts", Config { speculation, ..plain }),
    ];
    let mut reference: Option<Vec<Vec<u32>>> = None;
    for (name, config) in setups {
        let trace = run(model, turns, &config).with_context(|| name.to_owned())?;
        report(name, &trace);
        let outputs: Vec<Vec<u32>> = trace.into_iter().map(|turn| turn.tokens).collect();
        ensure!(*reference.get_or_insert(outputs.clone()) == outputs, "{name}: the output differs");
    }
    Ok(())
}

/// Plays the conversation.
fn run(model: &Path, turns: usize, config: &Config) -> Result<Vec<Turn>> {
    let tokenizer = Tokenizer::load(&model.join("tokenizer.json"))?;
    let engine = Engine::start(Workers::Both(Box::new(open_cpu(model, &CpuRunOptions::default())?)), config)?;
    let mut text = String::from("You are a clerk. Repeat each record as JSON.\n");
    let mut trace = Vec::new();
    for turn in 0..turns {
        text += &record(turn);
        let prompt = tokenizer.encode_plain(&text)?;
        let taken = play(&engine, prompt)?;
        let answer: Vec<u8> = taken.tokens.iter().flat_map(|id| tokenizer.vocabulary().bytes(*id).to_vec()).collect();
        text += &String::from_utf8_lossy(&answer);
        text += "\n";
        trace.push(taken);
    }
    let stats = engine.stats();
    if stats.spec_decode_draft_tokens_total > 0 {
        println!(
            "{} drafts of {} tokens, {} right; {} steps",
            stats.spec_decode_drafts_total,
            stats.spec_decode_draft_tokens_total,
            stats.spec_decode_accepted_tokens_total,
            stats.steps_total
        );
    }
    Ok(trace)
}

/// A tool's result, much like the one before.
fn record(turn: usize) -> String {
    let (id, price) = (1000 + turn * 7, 20 + turn * 3);
    let one = format!(
        "{{\"order_id\": \"A-{id}\", \"status\": \"shipped\", \"items\": [{{\"sku\": \"LAMP-{turn}\", \"quantity\": 2, \
         \"price\": {price}.50}}], \"address\": {{\"street\": \"12 Canal Road\", \"city\": \"Utrecht\"}}}}"
    );
    format!("Record: {one}\nAgain: {one}\nAgain: ")
}

fn play(engine: &Engine, prompt: Vec<u32>) -> Result<Turn> {
    let length = prompt.len();
    let request = GenerateRequest {
        id: "trace".into(),
        prompt,
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stop_ids: engine.model().eos_ids.clone(),
        max_tokens: ANSWER,
        logprobs: None,
        grammar: None,
        priority: 0,
        deadline: None,
        share: 0,
    };
    let began = Instant::now();
    let mut generation = engine.submit(request)?;
    let (mut tokens, mut first) = (Vec::new(), None);
    while let Some(event) = generation.blocking_recv() {
        match event {
            Event::Token { id, .. } => {
                first.get_or_insert_with(|| began.elapsed());
                tokens.push(id);
            }
            Event::Finished { usage, .. } => {
                let first = first.unwrap_or_else(|| began.elapsed());
                let decode = began.elapsed().saturating_sub(first);
                return Ok(Turn { prompt: length, cached: usage.cached_tokens, first, decode, tokens });
            }
            Event::Failed(error) => return Err(error.into()),
            Event::Stage(_) | Event::Cached(_) => {}
        }
    }
    anyhow::bail!("the stream ended without an end")
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn report(name: &str, trace: &[Turn]) {
    let (prompt, cached): (usize, u32) = (trace.iter().map(|t| t.prompt).sum(), trace.iter().map(|t| t.cached).sum());
    let tokens: usize = trace.iter().map(|t| t.tokens.len().saturating_sub(1)).sum();
    let decode: Duration = trace.iter().map(|t| t.decode).sum();
    let first: Vec<String> = trace.iter().map(|t| format!("{:.0}", t.first.as_secs_f64() * 1e3)).collect();
    println!("{name}: {:.1} % of {prompt} prompt tokens reused", 100.0 * f64::from(cached) / prompt.max(1) as f64);
    println!("  time to first token by turn, ms: {}", first.join(" "));
    println!("  decode: {:.1} tokens/s", tokens as f64 / decode.as_secs_f64().max(1e-9));
}
