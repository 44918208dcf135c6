//! `sluicegate engine`: a worker process without a gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use sluicegate_backend::engine::{Config, PrefillServer};
use sluicegate_backend::run::{CpuRunOptions, open_cpu};

use crate::config::Numbers;
use crate::engines::read_secret;

/// How long running sequences may take to finish after a signal.
const GRACE: Duration = Duration::from_secs(30);

/// What the process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Computes prompts for gateways, whose `engine.prefill` names this process.
    Prefill,
}

/// Arguments of `sluicegate engine`.
#[derive(Debug, Args)]
pub(super) struct Engine {
    /// The worker's role. The other role, decode, runs in the gateway.
    #[arg(long, value_enum)]
    role: Role,
    /// Model folder, the same as the gateway's.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Where decode workers connect; a loopback address, because links are not encrypted.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8998")]
    listen: SocketAddr,
    /// File with the secret that the gateway has too, at least 16 bytes.
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// Compute threads; 0 is one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Context tokens that the KV memory holds.
    #[arg(long, default_value_t = 32768)]
    max_total_tokens: u32,
    /// Context tokens in one KV block, the same as the gateway's.
    #[arg(long, default_value_t = 16)]
    block_size: u32,
    /// Most tokens of a speculative draft, the same as the gateway's: DeepSeek-V4's caches keep what taking it back needs.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    num_speculative_tokens: u32,
    /// Number formats, the same as the gateway's.
    #[command(flatten)]
    numbers: Numbers,
}

impl Engine {
    /// Serves until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// The model can't be loaded, or the address can't be listened on.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let secret = read_secret(&self.secret_file).map_err(anyhow::Error::msg)?;
        let options = CpuRunOptions {
            blocks: self.max_total_tokens.div_ceil(self.block_size.max(1)),
            block_tokens: self.block_size,
            threads: self.threads,
            draft_tokens: self.num_speculative_tokens,
            ..CpuRunOptions::default()
        };
        let options = self.numbers.of(options);
        let executor = open_cpu(&self.model, &options).with_context(|| self.model.display().to_string())?;
        let Role::Prefill = self.role;
        let server = PrefillServer::start(Box::new(executor), &Config::default(), self.listen, secret)?;
        println!("prefill worker listening on {}", server.address());
        wait_for_signal(|| server.failure().map(|e| e.to_string()))?;
        server.shutdown(GRACE);
        Ok(())
    }
}

/// Returns at SIGTERM or SIGINT; fails when the worker does.
fn wait_for_signal(failure: impl Fn() -> Option<String>) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                () = tokio::time::sleep(Duration::from_millis(200)) => {
                    if let Some(why) = failure() {
                        anyhow::bail!(why);
                    }
                }
            }
        }
    })
}
