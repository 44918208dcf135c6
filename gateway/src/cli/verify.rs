//! `sluicegate verify`: proves on this machine that a model's output does not depend on load.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use sluicegate_backend::api::{GenerateRequest, Sampling};
use sluicegate_backend::run::{CpuRunOptions, DeviceId, open};
use sluicegate_backend::tune;
use sluicegate_backend::verify::{self, ModeReport};

use crate::config::{Numbers, SpeculativeMethod};
use crate::text::Tokenizer;

/// Openings of the built-in prompts; each is used in several lengths and with several samplings.
const OPENINGS: [&str; 6] = [
    "The water in the canal rises when the gate is opened, and",
    "def median(values):\n    \"\"\"Return the median of a list of numbers.\"\"\"\n",
    "Question: A train leaves at 09:40 and arrives at 13:05. How long is the journey?\nAnswer:",
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"",
    "Il était une fois, dans un petit village au bord de la rivière,",
    "Once upon a time there was a lock-keeper who counted every boat, and every boat had a name.",
];

/// Differences shown for each mode.
const SHOWN: usize = 5;

/// Arguments of `sluicegate verify`.
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// Model folder, as `sluicegate import` writes it.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// `cpu`, or `cuda:0` and so on.
    #[arg(long, default_value = "cpu")]
    device: DeviceId,
    /// Folder of what `sluicegate tune` found, a file for each kind of device.
    #[arg(long, value_name = "DIR")]
    tuned_config_folder: Option<PathBuf>,
    /// Requests that run at the same time.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Most tokens to generate for each request.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,
    /// Number formats.
    #[command(flatten)]
    numbers: Numbers,
    /// Who drafts in the modes that draft.
    #[arg(long, value_enum, default_value_t)]
    speculative_method: SpeculativeMethod,
    /// Prompts, one a line, instead of the built-in ones; repeated until there is one for each concurrent request.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
}

impl Verify {
    /// Compares every mode with the sequential run and prints a line for each.
    ///
    /// # Errors
    /// The model cannot be loaded, a request fails, or any token differs.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let requests = self.requests()?;
        let options =
            CpuRunOptions { sequences: self.concurrency.max(CpuRunOptions::default().sequences), ..Default::default() };
        let mtp = self.speculative_method == SpeculativeMethod::Mtp;
        let options = self.numbers.of(CpuRunOptions { draft_tokens: verify::DRAFT_TOKENS, mtp, ..options });
        let knobs = tune::tuning(self.tuned_config_folder.as_deref(), self.device)?.knobs;
        let dir = self.model.clone();
        let mut make = || open(&dir, self.device, &options, knobs).map_err(|e| e.to_string());
        println!("{} requests alone, then {} at a time", requests.len(), self.concurrency);
        let reports = verify::run(&requests, self.concurrency as usize, &mut make, &mut print)?;
        let different: usize = reports.iter().map(|r| r.differences.len()).sum();
        anyhow::ensure!(different == 0, "{different} generations differ from the sequential run");
        println!("no token differs in {} modes", reports.len());
        Ok(())
    }

    fn requests(&self) -> anyhow::Result<Vec<GenerateRequest>> {
        let path = self.model.join("tokenizer.json");
        let tokenizer = Tokenizer::load(&path)?;
        let texts = match &self.prompts {
            Some(file) => {
                let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
                text.lines().filter(|l| !l.trim().is_empty()).map(str::to_owned).collect()
            }
            None => built_in(),
        };
        anyhow::ensure!(!texts.is_empty(), "the prompt file has no prompt; write one a line");
        let requests = texts.iter().cycle().take(texts.len().max(self.concurrency as usize)).enumerate();
        requests.map(|(i, text)| Ok(self.request(i, tokenizer.encode_plain(text)?))).collect()
    }

    fn request(&self, i: usize, prompt: Vec<u32>) -> GenerateRequest {
        let sampling = match i % 3 {
            0 => Sampling { temperature: 0.8, top_p: 0.95, seed: i as u64, ..Sampling::default() },
            1 => {
                Sampling { temperature: 1.0, top_k: 40, repetition_penalty: 1.1, seed: i as u64, ..Sampling::default() }
            }
            _ => Sampling { temperature: 0.0, ..Sampling::default() },
        };
        GenerateRequest {
            id: format!("verify-{i}").into(),
            prompt,
            sampling,
            stop_ids: Vec::new(),
            max_tokens: self.max_tokens,
            logprobs: Some(2),
            grammar: None,
            priority: 0,
            deadline: None,
            share: i as u64 % 3,
        }
    }
}

/// Prompts from a few to a few hundred tokens, many of which begin alike.
fn built_in() -> Vec<String> {
    let lengths = [0, 1, 2, 3, 5, 8, 12, 20, 30, 40];
    let long = |opening: &str, n: usize| format!("{}{opening}", format!("{} ", OPENINGS[5]).repeat(n));
    lengths.iter().flat_map(|n| OPENINGS.iter().map(|o| long(o, *n))).collect()
}

fn print(report: &ModeReport) {
    let verdict = if report.differences.is_empty() { "same" } else { "DIFFERENT" };
    println!(
        "{verdict:9}  {:62} {:4} requests {:6} tokens  {:6.1} s  {} cached tokens, {} preempted, {} blocks from host",
        report.mode.name,
        report.requests,
        report.tokens,
        report.took.as_secs_f64(),
        report.cached_tokens,
        report.preempted,
        report.loaded_blocks,
    );
    for d in report.differences.iter().take(SHOWN) {
        println!("           request {} at output token {}: {:?} alone, {:?} here", d.request, d.at, d.alone, d.here);
    }
    // Progress is for people; a closed pipe is no reason to stop.
    let _ = std::io::stdout().flush();
}
