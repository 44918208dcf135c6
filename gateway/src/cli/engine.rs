//! `sluicegate engine`: a worker process without a gateway.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use sluicegate_backend::engine::Config;
use sluicegate_backend::run::{CpuRunOptions, DeviceId, open};
use sluicegate_backend::tune;
use sluicegate_workers::{self as workers, Door, Worker};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Numbers, SpeculativeConfig, SpeculativeMethod};
use crate::engines::read_secret;
use crate::grammar::Compiler;
use crate::text::Tokenizer;

/// How long running sequences may take to finish after a signal.
const GRACE: Duration = Duration::from_secs(30);
/// Port for decode workers, where none is named.
const TRANSFER_PORT: u16 = 8998;
/// How often the engine is asked whether it has failed.
const LOOK: Duration = Duration::from_millis(200);
/// Threads that move messages; computing has its own.
const THREADS: usize = 2;

/// What the process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Computes prompts and sends their pages to decode workers.
    Prefill,
    /// Runs everything after the first token, on pages of the prefill worker that the gateway names.
    Decode,
    /// Both: a whole engine.
    Both,
}

/// Arguments of `sluicegate engine`.
#[derive(Debug, Args)]
pub(super) struct Engine {
    /// The worker's role.
    #[arg(long, value_enum)]
    role: Role,
    /// Model folder, the same for all workers and the gateway.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Where gateways connect, over TLS that both sides authenticate with the secret. Port 0 is any free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8999")]
    listen: SocketAddr,
    /// Where decode workers fetch pages from a prefill worker, encrypted likewise [default: port 8998 of --listen's address]
    #[arg(long, value_name = "ADDRESS:PORT")]
    transfer_listen: Option<SocketAddr>,
    /// File with the secret that gateways and workers share, at least 16 bytes.
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// `cpu`, or `cuda:0` and so on; the same kind as the gateway's.
    #[arg(long, default_value = "cpu")]
    device: DeviceId,
    /// Compute threads of the CPU; 0 is one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Context tokens that the KV memory holds.
    #[arg(long, default_value_t = 32768)]
    max_total_tokens: u32,
    /// Context tokens in one KV block, the same for all workers; absent: what suits the model's caches.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    block_size: Option<u32>,
    /// Most tokens of a speculative draft, the same for all that share caches: DeepSeek-V4's keep what taking it back needs.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    num_speculative_tokens: u32,
    /// Who drafts, the same for all that share caches: the model's own drafting layer has some, too.
    #[arg(long, value_enum, default_value_t)]
    speculative_method: SpeculativeMethod,
    /// Number formats, the same as the gateway's.
    #[command(flatten)]
    numbers: Numbers,
    /// Sequences that may run at once.
    #[arg(long, default_value_t = 64)]
    max_num_seqs: u32,
    /// Tokens that one step may run, prefill chunks and decodes together.
    #[arg(long, default_value_t = 512)]
    max_num_batched_tokens: u32,
    /// Of these, prompt tokens of one sequence; 0 is all [default: as tuned, else 0]
    #[arg(long)]
    long_prefill_token_threshold: Option<u32>,
    /// Folder of what `sluicegate tune` found, a file for each kind of device.
    #[arg(long, value_name = "DIR")]
    tuned_config_folder: Option<PathBuf>,
    /// Requests that may wait; further ones are refused.
    #[arg(long, default_value_t = 1024)]
    max_queued_requests: usize,
}

impl Engine {
    /// Serves until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// The model can't be loaded, or an address can't be listened on.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let secret = read_secret(&self.secret_file).map_err(anyhow::Error::msg)?;
        let tokens = self.num_speculative_tokens as usize;
        let speculative = (tokens > 0).then(|| SpeculativeConfig::new(self.speculative_method, tokens));
        let options = CpuRunOptions {
            blocks: self.max_total_tokens.div_ceil(self.block_size.unwrap_or(16)),
            block_tokens: self.block_size.unwrap_or(0),
            sequences: self.max_num_seqs,
            rows: self.max_num_batched_tokens,
            threads: self.threads,
            draft_tokens: self.num_speculative_tokens,
            mtp: speculative.as_ref().is_some_and(|s| s.method == SpeculativeMethod::Mtp),
            ..CpuRunOptions::default()
        };
        let options = self.numbers.of(options);
        let tuning = tune::tuning(self.tuned_config_folder.as_deref(), self.device)?;
        let chunk = self.long_prefill_token_threshold.unwrap_or(tuning.long_prefill_token_threshold);
        let config = Config {
            max_num_seqs: self.max_num_seqs as usize,
            max_num_batched_tokens: self.max_num_batched_tokens as usize,
            long_prefill_token_threshold: chunk as usize,
            max_queued_requests: self.max_queued_requests,
            speculation: speculative.filter(|_| self.role != Role::Prefill).map(|s| s.speculation()),
            ..Config::default()
        };
        let role = match self.role {
            Role::Prefill => workers::Role::Prefill,
            Role::Decode => workers::Role::Decode,
            Role::Both => workers::Role::Both,
        };
        let grammars = (self.role != Role::Prefill).then(|| compiler(&self.model)).flatten();
        let transfer_listen = self.transfer_listen.unwrap_or(SocketAddr::new(self.listen.ip(), TRANSFER_PORT));
        let door = Door { role, listen: self.listen, transfer_listen, secret, grammars };
        let executor = open(&self.model, self.device, &options, tuning.knobs);
        let executor = executor.with_context(|| self.model.display().to_string())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        runtime.block_on(async {
            let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            let worker = Worker::start(door, executor, &config).await?;
            if let Some(transfer) = worker.transfer_address() {
                println!("pages on {transfer}");
            }
            // Last: whoever started us may read no further.
            println!("{} worker listening on {}", role.name(), worker.address());
            loop {
                tokio::select! {
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    () = tokio::time::sleep(LOOK) => {
                        if let Some(why) = worker.failure() {
                            anyhow::bail!(why);
                        }
                    }
                }
            }
            worker.shutdown(GRACE).await;
            Ok(())
        })
    }
}

/// What compiles the grammars of requests, if the model folder has a tokenizer.
fn compiler(model: &Path) -> Option<Arc<dyn workers::Grammars>> {
    match Tokenizer::load(&model.join("tokenizer.json")) {
        Ok(tokenizer) => Some(Arc::new(Compiler::new(Arc::clone(tokenizer.vocabulary())))),
        Err(error) => {
            tracing::warn!(%error, "requests with a grammar will be refused");
            None
        }
    }
}
