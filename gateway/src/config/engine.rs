//! `[engine]`: the native engine's size, for each model that uses it. Names follow vLLM's and SGLang's flags.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;
use sluicegate_backend::draft::{Method, Speculation};
use sluicegate_backend::run::DeviceId;

use super::numbers::{Arithmetic, IndexDtype, KvDtype, Numbers, Nvfp4Gemm};
use super::{Broken, require, require_reachable};

/// `[engine]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// `cpu`, or `cuda:0` and so on.
    pub device: String,
    /// Folder of what `sluicegate tune` found, a file for each kind of device; absent: the defaults.
    pub tuned_config_folder: Option<PathBuf>,
    /// Compute threads of one model on the CPU; 0 is one per core.
    pub threads: usize,
    /// Context tokens that the KV memory holds, over all sequences.
    pub max_total_tokens: u32,
    /// Context tokens in one KV block; absent: what suits the model's caches.
    pub block_size: Option<u32>,
    /// Tokens that one step may run, prefill chunks and decodes together.
    pub max_num_batched_tokens: u32,
    /// Of these, prompt tokens of one sequence; 0: all. Absent: as the tuned configuration says, else 0.
    pub long_prefill_token_threshold: Option<u32>,
    /// Sequences that may run at once.
    pub max_num_seqs: u32,
    /// Requests that may wait; further ones get 503.
    pub max_queued_requests: usize,
    /// Reuse the KV of equal prompt prefixes.
    pub enable_prefix_caching: bool,
    /// Only a tenant's own prompts are reused, so that timing tells nothing about others'.
    pub prefix_caching_per_tenant: bool,
    /// Arithmetic of the CPU.
    pub arithmetic: Arithmetic,
    /// Number format of cached keys and values.
    pub kv_cache_dtype: KvDtype,
    /// Number format of an indexer's cached keys (DeepSeek-V4).
    pub index_cache_dtype: IndexDtype,
    /// Round what the vendor's kernels round (DeepSeek-V4).
    pub activation_simulation: bool,
    /// What NVFP4 weights are multiplied with.
    pub nvfp4_gemm: Nvfp4Gemm,
    /// Host memory for KV blocks that the device evicts, in MiB; they come back when a prefix matches.
    pub kv_offloading_size: usize,
    /// Debug: compare complete KV blocks with their checksums before every step that reads them; much slower.
    pub kv_checksums: bool,
    /// Guess tokens and check several in one step; absent: one token a step. Output is the same either way.
    pub speculative_config: Option<SpeculativeConfig>,
    /// Address of a `sluicegate engine --role prefill` that computes prompts; absent: this process does.
    pub prefill: Option<SocketAddr>,
    /// File with the secret that the prefill worker has too.
    pub prefill_secret_file: Option<PathBuf>,
}

/// `[engine.speculative_config]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculativeConfig {
    /// Who guesses.
    pub method: SpeculativeMethod,
    /// Most tokens of one guess.
    pub num_speculative_tokens: usize,
    /// `ngram`: fewest tokens that must match.
    #[serde(default = "two")]
    pub prompt_lookup_min: usize,
    /// `ngram`: most tokens that are compared.
    #[serde(default = "four")]
    pub prompt_lookup_max: usize,
    /// No guesses while more sequences than this are decoded; 0: no limit.
    #[serde(default = "four")]
    pub disable_by_batch_size: usize,
}

fn two() -> usize {
    2
}

fn four() -> usize {
    4
}

/// Who guesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SpeculativeMethod {
    /// What followed the same tokens before, in prompt or output.
    #[default]
    Ngram,
    /// The checkpoint's own drafting layers.
    Mtp,
}

impl SpeculativeConfig {
    /// This method with so many tokens, and otherwise the defaults.
    #[must_use]
    pub fn new(method: SpeculativeMethod, num_speculative_tokens: usize) -> Self {
        Self {
            method,
            num_speculative_tokens,
            prompt_lookup_min: two(),
            prompt_lookup_max: four(),
            disable_by_batch_size: four(),
        }
    }

    /// The engine's settings.
    #[must_use]
    pub fn speculation(&self) -> Speculation {
        let method = match self.method {
            SpeculativeMethod::Ngram => {
                Method::Ngram { prompt_lookup_min: self.prompt_lookup_min, prompt_lookup_max: self.prompt_lookup_max }
            }
            SpeculativeMethod::Mtp => Method::Mtp,
        };
        Speculation {
            num_speculative_tokens: self.num_speculative_tokens,
            disable_by_batch_size: self.disable_by_batch_size,
            method,
        }
    }

    fn validate(&self) -> Result<(), Broken> {
        let key = |name: &str| format!("engine.speculative_config.{name}");
        require((1..=64).contains(&self.num_speculative_tokens), key("num_speculative_tokens"), "must be 1 to 64")?;
        require(self.prompt_lookup_min > 0, key("prompt_lookup_min"), "must be at least 1")?;
        let ordered = self.prompt_lookup_max >= self.prompt_lookup_min;
        require(ordered, key("prompt_lookup_max"), "must be at least prompt_lookup_min")
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            device: "cpu".into(),
            tuned_config_folder: None,
            threads: 0,
            max_total_tokens: 32768,
            block_size: None,
            max_num_batched_tokens: 512,
            long_prefill_token_threshold: None,
            max_num_seqs: 64,
            max_queued_requests: 1024,
            enable_prefix_caching: true,
            prefix_caching_per_tenant: true,
            arithmetic: Arithmetic::default(),
            kv_cache_dtype: KvDtype::default(),
            index_cache_dtype: IndexDtype::default(),
            activation_simulation: true,
            nvfp4_gemm: Nvfp4Gemm::default(),
            kv_offloading_size: 0,
            kv_checksums: false,
            speculative_config: None,
            prefill: None,
            prefill_secret_file: None,
        }
    }
}

impl Engine {
    /// How numbers are computed and kept.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        let Self { arithmetic, kv_cache_dtype, index_cache_dtype, activation_simulation, nvfp4_gemm, .. } = *self;
        Numbers { arithmetic, kv_cache_dtype, index_cache_dtype, activation_simulation, nvfp4_gemm }
    }

    pub(super) fn validate(&self) -> Result<(), Broken> {
        let device = self.device.parse::<DeviceId>();
        require(device.is_ok(), "engine.device", device.err().unwrap_or_default())?;
        let at_least_one = |value: usize, key: &str| require(value > 0, format!("engine.{key}"), "must be at least 1");
        at_least_one(self.max_total_tokens as usize, "max_total_tokens")?;
        at_least_one(self.max_num_batched_tokens as usize, "max_num_batched_tokens")?;
        at_least_one(self.max_num_seqs as usize, "max_num_seqs")?;
        self.prefill.map_or(Ok(()), |address| require_reachable(address, "engine.prefill"))?;
        require(
            self.prefill.is_some() == self.prefill_secret_file.is_some(),
            "engine.prefill_secret_file",
            "must be given with engine.prefill, and only then",
        )?;
        self.speculative_config.as_ref().map_or(Ok(()), SpeculativeConfig::validate)?;
        let block = self.block_size.unwrap_or(16);
        require(
            block > 0 && block.is_multiple_of(16) && block <= 4096,
            "engine.block_size",
            "must be a multiple of 16 up to 4096",
        )
    }
}
