//! The native engines of this process: one for each model folder, shared by the routes that name it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluicegate_backend::engine::{Config, Engine, PrefillPeer, Secret, Stats, Workers};
use sluicegate_backend::run::{CpuRunOptions, DeviceId, open};
use sluicegate_backend::tune;

use crate::config::{self, SpeculativeMethod};
use crate::scrape::Family;
use crate::tenant::Tenants;

/// Running engines, by model folder.
#[derive(Debug)]
pub struct Engines {
    device: DeviceId,
    sizes: CpuRunOptions,
    config: Config,
    /// Where tuned configurations are.
    tuned: Option<PathBuf>,
    /// Prompt tokens of one sequence in one step, where the configuration says.
    chunk: Option<u32>,
    /// Address and secret file of the prefill worker, if prompts are computed elsewhere.
    prefill: Option<(SocketAddr, PathBuf)>,
    running: BTreeMap<PathBuf, Engine>,
}

impl Engines {
    /// None yet; they will have these sizes, and these tenants' shares.
    #[must_use]
    pub fn new(config: &config::Engine, tenants: &Tenants) -> Self {
        let prefill = config.prefill.zip(config.prefill_secret_file.clone());
        let speculative = config.speculative_config.as_ref();
        // The configuration has been validated.
        let device = config.device.parse().unwrap_or_default();
        let sizes = config.numbers().of(CpuRunOptions {
            blocks: config.max_total_tokens.div_ceil(config.block_size.unwrap_or(16)),
            block_tokens: config.block_size.unwrap_or(0),
            sequences: config.max_num_seqs,
            rows: config.max_num_batched_tokens,
            threads: config.threads,
            draft_tokens: speculative.map_or(0, |s| s.num_speculative_tokens as u32),
            mtp: speculative.is_some_and(|s| s.method == SpeculativeMethod::Mtp),
            ..CpuRunOptions::default()
        });
        let (tuned, chunk) = (config.tuned_config_folder.clone(), config.long_prefill_token_threshold);
        let config = Config {
            max_num_seqs: config.max_num_seqs as usize,
            max_num_batched_tokens: config.max_num_batched_tokens as usize,
            max_queued_requests: config.max_queued_requests,
            enable_prefix_caching: config.enable_prefix_caching,
            prefix_caching_per_share: config.prefix_caching_per_tenant,
            kv_offloading_bytes: config.kv_offloading_size << 20,
            kv_checksums: config.kv_checksums,
            speculation: speculative.map(config::SpeculativeConfig::speculation),
            share_weights: tenants.iter().map(|tenant| (tenant.share, tenant.weight)).collect(),
            ..Config::default()
        };
        Self { device, sizes, config, tuned, chunk, prefill, running: BTreeMap::new() }
    }

    /// The engine of a model folder, started if it is not running yet.
    ///
    /// # Errors
    /// What is wrong with the folder or the sizes.
    pub fn start(&mut self, dir: &Path) -> Result<Engine, String> {
        if let Some(engine) = self.running.get(dir) {
            return Ok(engine.clone());
        }
        let began = std::time::Instant::now();
        let tuning = tune::tuning(self.tuned.as_deref(), self.device).map_err(|error| error.to_string())?;
        let chunk = self.chunk.unwrap_or(tuning.long_prefill_token_threshold) as usize;
        let config = Config { long_prefill_token_threshold: chunk, ..self.config.clone() };
        let opened = open(dir, self.device, &self.sizes, tuning.knobs);
        let decode = opened.map_err(|error| format!("{}: {error}", dir.display()))?;
        let workers = match &self.prefill {
            None => Workers::Both(decode),
            Some((address, file)) => {
                Workers::Remote { prefill: PrefillPeer { address: *address, secret: read_secret(file)? }, decode }
            }
        };
        let engine = Engine::start(workers, &config).map_err(|error| error.to_string())?;
        tracing::info!(
            model = %dir.display(),
            architecture = engine.model().architecture,
            device = %self.device,
            took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "engine started"
        );
        self.running.insert(dir.to_owned(), engine.clone());
        Ok(engine)
    }

    /// Why an engine can serve nothing more, if one can't.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.running.values().find_map(Engine::failure).map(|error| error.to_string())
    }

    /// Ends all engines' threads; requests get `grace` to finish. Blocks.
    pub fn shutdown(&self, grace: Duration) {
        for engine in self.running.values() {
            engine.shutdown(grace);
        }
    }

    /// Metrics of all engines.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "Prometheus' numbers are f64")]
    pub fn scrape(&self) -> Vec<Family> {
        let stats: Vec<(String, Stats)> =
            self.running.iter().map(|(dir, engine)| (label(dir), engine.stats())).collect();
        let family = |counter: bool, name, help, value: fn(&Stats) -> f64| Family {
            name,
            help,
            counter,
            label: "engine",
            samples: stats.iter().map(|(engine, stats)| (engine.clone(), value(stats))).collect(),
        };
        vec![
            family(false, "engine_requests_running", "Requests in the engine, waiting or not", |s| s.running as f64),
            family(false, "engine_requests_waiting", "Requests that wait", |s| s.waiting as f64),
            family(false, "engine_sequences_prefilling", "Sequences being prefilled", |s| s.prefilling as f64),
            family(false, "engine_sequences_decoding", "Sequences being decoded", |s| s.decoding as f64),
            family(false, "engine_slots", "Sequence slots of all workers", |s| s.slots_total as f64),
            family(false, "engine_slots_used", "Sequence slots in use", |s| s.slots_used as f64),
            family(false, "kv_blocks", "KV blocks in all", |s| s.blocks_total as f64),
            family(false, "kv_blocks_held", "KV blocks that sequences hold", |s| s.blocks_held as f64),
            family(false, "kv_blocks_cached", "KV blocks kept for prefix reuse", |s| s.blocks_cached as f64),
            family(false, "kv_blocks_host", "KV blocks kept in host memory", |s| s.blocks_host as f64),
            family(true, "kv_blocks_loaded", "KV blocks brought back from host memory", |s| {
                s.blocks_loaded_total as f64
            }),
            family(true, "engine_sequences_preempted", "Sequences that gave their blocks back", |s| {
                s.preempted_total as f64
            }),
            family(true, "engine_steps", "Steps run", |s| s.steps_total as f64),
            family(true, "engine_prompt_tokens", "Prompt tokens admitted", |s| s.prompt_tokens_total as f64),
            family(true, "engine_cached_tokens", "Prompt tokens from the prefix cache", |s| {
                s.cached_tokens_total as f64
            }),
            family(true, "engine_generated_tokens", "Tokens generated", |s| s.generated_tokens_total as f64),
            family(true, "spec_decode_num_drafts", "Speculative drafts checked", |s| s.spec_decode_drafts_total as f64),
            family(true, "spec_decode_num_draft_tokens", "Tokens in speculative drafts", |s| {
                s.spec_decode_draft_tokens_total as f64
            }),
            family(true, "spec_decode_num_accepted_tokens", "Drafted tokens that were right", |s| {
                s.spec_decode_accepted_tokens_total as f64
            }),
            family(true, "engine_requests_finished", "Requests that ended by themselves", |s| s.finished_total as f64),
            family(true, "engine_requests_aborted", "Requests whose client left", |s| s.aborted_total as f64),
        ]
    }
}

/// The secret in a file, without surrounding white space.
///
/// # Errors
/// It can't be read or is too short.
pub fn read_secret(file: &Path) -> Result<Secret, String> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let short = || format!("{}: a secret needs at least {} bytes", file.display(), Secret::LEAST);
    Secret::new(text.trim_ascii()).ok_or_else(short)
}

fn label(dir: &Path) -> String {
    dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned()
}
