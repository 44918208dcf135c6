//! `sluicegate plan`: what serving a model takes on given devices, from its config.json alone.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use sluicegate_backend::plan::{DEVICES, Question, WeightFormat, Workload, device, plan};
use sluicegate_backend::weights::ModelConfig;

use crate::config::{Arithmetic, IndexDtype, KvDtype, Numbers, Nvfp4Gemm, SpeculativeMethod};

/// Arguments of `sluicegate plan`.
#[derive(Debug, Args)]
pub(super) struct Plan {
    /// `config.json`, or the folder that holds it. No weights are needed.
    config: PathBuf,
    /// Kind of device.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(DEVICES.map(|d| d.name)))]
    device: String,
    /// How many.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    devices: u16,
    /// Number format of what a checkpoint quantizes (DeepSeek-V4: its routed experts).
    #[arg(long, value_enum, default_value_t = Format::Nvfp4)]
    weights: Format,
    /// Number format of cached keys and values.
    #[arg(long, value_enum, default_value_t = KvDtype::Bf16)]
    kv_cache_dtype: KvDtype,
    /// Number format of an indexer's cached keys.
    #[arg(long, value_enum, default_value_t)]
    index_cache_dtype: IndexDtype,
    /// Context tokens in one KV block; absent: what suits the model's caches.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    block_size: Option<u32>,
    /// Most tokens of a speculative draft, for which caches and the drafting layer take memory; floors stay those of plain steps.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    num_speculative_tokens: u32,
    /// Who drafts.
    #[arg(long, value_enum, default_value_t)]
    speculative_method: SpeculativeMethod,
    /// Part of a device's memory for weights and caches.
    #[arg(long, default_value_t = 0.9, value_parser = fraction)]
    gpu_memory_utilization: f64,
    /// Tokens of a prefill step.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    max_num_batched_tokens: u32,
    /// The workload: tokens of context in the middle of an answer.
    #[arg(long, default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(1..))]
    context: u32,
    /// The workload: prompt tokens that are not in the prefix cache.
    #[arg(long, default_value_t = 4096)]
    prompt: u32,
    /// The workload: tokens of an answer.
    #[arg(long, default_value_t = 512)]
    output: u32,
    /// The workload: longest time between two tokens, in milliseconds.
    #[arg(long, default_value_t = 50.0)]
    inter_token_ms: f64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// 4-bit floats, an E4M3 scale for each 16.
    Nvfp4,
    /// 4-bit floats, a power-of-two scale for each 32.
    Mxfp4,
    /// 8-bit floats.
    Fp8,
    /// bfloat16.
    Bf16,
}

fn fraction(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if value > 0.0 && value <= 1.0 { Ok(value) } else { Err("must be above 0 and at most 1".into()) }
}

impl Plan {
    /// Prints the plan.
    ///
    /// # Errors
    /// The config can't be read, or the architecture has no such cache format.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let path = if self.config.is_dir() { self.config.join("config.json") } else { self.config.clone() };
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let config = ModelConfig::parse(&path, &text)?;
        let numbers = Numbers {
            arithmetic: Arithmetic::Fast,
            kv_cache_dtype: self.kv_cache_dtype,
            index_cache_dtype: self.index_cache_dtype,
            nvfp4_gemm: Nvfp4Gemm::default(),
            activation_simulation: false,
        };
        let question = Question {
            device: device(&self.device).context("a known device")?,
            devices: self.devices.into(),
            format: match self.weights {
                Format::Nvfp4 => WeightFormat::Nvfp4,
                Format::Mxfp4 => WeightFormat::Mxfp4,
                Format::Fp8 => WeightFormat::Fp8,
                Format::Bf16 => WeightFormat::Bf16,
            },
            dtypes: numbers.dtypes(),
            block_tokens: self.block_size.unwrap_or(0),
            draft_tokens: self.num_speculative_tokens,
            mtp: self.num_speculative_tokens > 0 && self.speculative_method == SpeculativeMethod::Mtp,
            memory_utilization: self.gpu_memory_utilization,
            chunk: self.max_num_batched_tokens as usize,
            workload: Workload {
                context: self.context as usize,
                prompt: self.prompt as usize,
                output: self.output as usize,
                inter_token: self.inter_token_ms / 1e3,
            },
        };
        print!("{}", plan(&config, question)?);
        Ok(())
    }
}
