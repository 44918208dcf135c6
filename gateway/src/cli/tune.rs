//! `sluicegate tune`: measures which settings serve fastest on a device, and writes them down for engines on such devices.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use sluicegate_backend::inspect::inspect;
use sluicegate_backend::run::{CpuRunOptions, DeviceId, gpus};
use sluicegate_backend::tune::{self, Card, Found, Knob, Made, Profile, RISK, Search, Trial, Verdict, Workload};

use crate::config::Numbers;

/// KV blocks of every architecture are at most this many tokens unless asked for.
const LARGEST_BLOCK: u32 = 128;

/// Arguments of `sluicegate tune`.
#[derive(Debug, Args)]
pub(super) struct Tune {
    /// Model folder, as `sluicegate import` writes it.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// `cpu`, or `cuda:0` and so on.
    #[arg(long, default_value = "cuda:0")]
    device: DeviceId,
    /// Numbers of requests that run at the same time: each is measured.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64], value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: Vec<u32>,
    /// Only these knobs, in this order; absent: all that the device has.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    knobs: Vec<String>,
    /// Prompt tokens of a request on average.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    input_len: u32,
    /// Tokens that each request generates.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    output_len: u32,
    /// Pairs of runs in each comparison; absent: so many that two outliers decide nothing. One outlier is the least.
    #[arg(long)]
    pairs: Option<usize>,
    /// Tokens that one step may run, as engines will be started.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    max_num_batched_tokens: u32,
    /// Compute threads of the CPU; 0 is one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Number formats.
    #[command(flatten)]
    numbers: Numbers,
    /// Folder for the profile, as `engine.tuned_config_folder` names it.
    #[arg(long, value_name = "DIR", default_value = "tuned")]
    save_dir: PathBuf,
}

impl Tune {
    /// Searches, prints every comparison, writes the profile.
    ///
    /// # Errors
    /// The model cannot be loaded, a request fails, there is nothing to compare, or the profile can't be written.
    pub(super) fn run(self) -> anyhow::Result<()> {
        if let (DeviceId::Cuda(_), Err(error)) = (self.device, gpus()) {
            println!("no GPU: {error}");
            println!("Nothing was measured. `--device cpu` tunes what the CPU has: {}.", names(DeviceId::Cpu));
            return Ok(());
        }
        let (card, search) = (Card::of(self.device)?, self.search()?);
        let made = self.made()?;
        println!("{} ({}, {})", self.device, card.name, card.capability);
        println!("knobs: {}", search.knobs.iter().map(|k| k.name()).collect::<Vec<_>>().join(", "));
        println!(
            "{} pairs of runs a comparison, {} prompt and {} output tokens a request; whatever differs, the risk that anything is chosen \
             by chance is {:.0} %",
            search.pairs,
            search.workload.input_len,
            search.workload.output_len,
            RISK * 100.0
        );
        let device = tune::open(&self.model, self.device, &self.options(&search))
            .with_context(|| self.model.display().to_string())?;
        let found = tune::run(&search, device, &mut |trial| println!("{}", line(trial)))?;
        let profile = Profile::new(&card, made, &search, &found);
        let path = profile.save(&self.save_dir);
        let path = path.with_context(|| format!("{}: cannot write the profile", self.save_dir.display()))?;
        conclude(&found, &search.knobs);
        println!("written to {}; engines find it with engine.tuned_config_folder", path.display());
        Ok(())
    }

    fn search(&self) -> anyhow::Result<Search> {
        let named = |name: &String| {
            let knob = Knob::named(name, self.device);
            knob.with_context(|| format!("{} has no knob `{name}`; it has {}", self.device, names(self.device)))
        };
        let mut knobs = self.knobs.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?;
        if knobs.is_empty() {
            knobs = Knob::of(self.device).to_vec();
        }
        let workload = Workload { input_len: self.input_len, output_len: self.output_len };
        let search = Search { knobs, concurrency: self.concurrency.clone(), workload, pairs: 0 };
        let usual = search.fewest_pairs(self.max_num_batched_tokens, 2);
        Ok(Search { pairs: self.pairs.unwrap_or(usual), ..search })
    }

    fn options(&self, search: &Search) -> CpuRunOptions {
        let most = self.concurrency.iter().copied().max().unwrap_or(1);
        self.numbers.of(CpuRunOptions {
            blocks: search.workload.kv_tokens(most, LARGEST_BLOCK).div_ceil(16),
            sequences: most,
            rows: self.max_num_batched_tokens,
            threads: self.threads,
            ..CpuRunOptions::default()
        })
    }

    fn made(&self) -> anyhow::Result<Made> {
        let found = inspect(&self.model, self.numbers.dtypes(), self.max_num_batched_tokens as usize)?;
        let (cuda, driver) = tune::driver(self.device);
        Ok(Made {
            sluicegate: env!("CARGO_PKG_VERSION").into(),
            date: time::OffsetDateTime::now_utc().date().to_string(),
            cuda,
            driver,
            architecture: found.config.architecture,
            num_hidden_layers: found.config.num_hidden_layers,
            hidden_size: found.config.hidden_size,
            vocab_size: found.config.vocab_size,
            weights: found.formats.into_keys().collect(),
            max_num_batched_tokens: self.max_num_batched_tokens,
            ..Made::default()
        })
    }
}

fn names(device: DeviceId) -> String {
    Knob::of(device).iter().map(|knob| knob.name()).collect::<Vec<_>>().join(", ")
}

fn line(trial: &Trial) -> String {
    let (times, ms) = (&trial.times, |seconds: f64| seconds * 1e3);
    let what = match trial.knob {
        Some(knob) => format!("{knob} {} -> {}", trial.from, trial.to),
        None => "defaults -> all that was chosen".into(),
    };
    let verdict = match times.verdict() {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "no difference",
    };
    format!(
        "{what:<42} at {:>4}  {:>9.2} ms -> {:>9.2} ms  ratio {:.3} [{:.3}, {:.3}]  {verdict}",
        trial.concurrency,
        ms(times.baseline),
        ms(times.candidate),
        times.ratio,
        times.low,
        times.high,
    )
}

fn conclude(found: &Found, knobs: &[Knob]) {
    if found.is_withdrawn {
        println!("what was chosen step by step is slower than the defaults together: defaults");
    }
    let default = tune::Tuning::default();
    for knob in knobs {
        let (value, usual) = (knob.value(&found.best), knob.value(&default));
        let note = if value == usual { "the default" } else { "chosen" };
        println!("{knob} = {value} ({note})");
    }
}
