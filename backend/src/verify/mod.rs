//! Self-proof: the same requests alone and under every kind of load must give the same tokens, bit for bit.

mod mode;
mod play;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub use mode::{DRAFT_TOKENS, Mode, Place, modes};

use crate::api::{EngineError, FinishReason, GenerateRequest, Logprobs};
use crate::engine::{Engine, PrefillPeer, PrefillServer, StartError, Stats, Workers};
use crate::exec::Executor;
use crate::transfer::remote::Secret;
use play::play;

/// Makes an executor; called for each engine that a mode needs.
pub type MakeExecutor<'a> = dyn FnMut() -> Result<Box<dyn Executor>, String> + 'a;

/// What one request yielded.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Tokens, with log probabilities where asked for: these are compared to the last bit.
    pub tokens: Vec<(u32, Option<Box<Logprobs>>)>,
    /// Why it ended.
    pub reason: FinishReason,
}

/// A request whose output in a mode is not what it is alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Index of the request.
    pub request: usize,
    /// First output token that differs.
    pub at: usize,
    /// That token alone; none where the output ended.
    pub alone: Option<u32>,
    /// That token in the mode. The same token differs in its log probabilities or in how the generation ended.
    pub here: Option<u32>,
}

/// What one mode gave.
#[derive(Clone, Debug)]
pub struct ModeReport {
    /// Which.
    pub mode: Mode,
    /// Requests compared.
    pub requests: usize,
    /// Tokens compared.
    pub tokens: usize,
    /// What differed.
    pub differences: Vec<Difference>,
    /// Prompt tokens taken from the prefix cache.
    pub cached_tokens: u64,
    /// KV blocks that came back from host memory.
    pub loaded_blocks: u64,
    /// Sequences preempted.
    pub preempted: u64,
    /// Wall time.
    pub took: Duration,
}

/// Why a verification could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// No executor.
    #[error("cannot load an executor: {0}")]
    Executor(String),
    /// No engine.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A request was refused or failed.
    #[error("request {request} failed in mode \"{mode}\": {error}")]
    Request {
        /// Index of the request.
        request: usize,
        /// Name of the mode.
        mode: &'static str,
        /// Why.
        error: EngineError,
    },
    /// After a mode, the engine still held something.
    #[error("after mode \"{mode}\" the engine still holds {blocks} KV blocks and {slots} slots of {running} sequences")]
    Leak {
        /// Name of the mode.
        mode: &'static str,
        /// Blocks held.
        blocks: usize,
        /// Slots in use.
        slots: usize,
        /// Sequences.
        running: usize,
    },
}

/// Runs `requests` one after another on a fresh engine, then in every mode of [`modes`], and compares. `done` hears of
/// each mode as it ends.
///
/// # Errors
/// The verification could not be carried out; differences are no error.
pub fn run(
    requests: &[GenerateRequest],
    concurrency: usize,
    make: &mut MakeExecutor<'_>,
    done: &mut dyn FnMut(&ModeReport),
) -> Result<Vec<ModeReport>, VerifyError> {
    let alone = Mode::alone();
    let reference = run_mode(&alone, requests, concurrency, make)?.0;
    let mut reports = Vec::new();
    for mode in modes() {
        let began = Instant::now();
        let (outputs, stats) = run_mode(&mode, requests, concurrency, make)?;
        let pairs = outputs.iter().enumerate().map(|(i, here)| (i % requests.len(), here));
        let report = ModeReport {
            mode,
            requests: outputs.len(),
            tokens: outputs.iter().map(|o| o.tokens.len()).sum(),
            differences: pairs.filter_map(|(i, here)| difference(i, &reference[i], here)).collect(),
            cached_tokens: stats.cached_tokens_total,
            loaded_blocks: stats.blocks_loaded_total,
            preempted: stats.preempted_total,
            took: began.elapsed(),
        };
        done(&report);
        reports.push(report);
    }
    Ok(reports)
}

fn run_mode(
    mode: &Mode,
    requests: &[GenerateRequest],
    concurrency: usize,
    make: &mut MakeExecutor<'_>,
) -> Result<(Vec<Output>, Stats), VerifyError> {
    let mut make = || make().map_err(VerifyError::Executor);
    let first = make()?;
    let longest = requests.iter().map(|r| r.prompt.len() + r.max_tokens as usize).max().unwrap_or(1);
    let blocks = longest.div_ceil(first.model().cache.block_tokens.max(1) as usize);
    let config = mode.config(requests, concurrency, blocks, &*first);
    let mut server = None;
    let workers = match mode.place {
        Place::OneDevice => Workers::Both(first),
        Place::TwoDevices => Workers::Split { prefill: first, decode: make()? },
        Place::Linked => {
            let secret = Secret::new("both ends are in this process").ok_or(StartError::Mismatch("secret"))?;
            let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
            let running = server.insert(PrefillServer::start(first, &config, any_port, secret.clone())?);
            Workers::Remote { prefill: PrefillPeer { address: running.address(), secret }, decode: make()? }
        }
    };
    let engine = Engine::start(workers, &config)?;
    let outputs = play(&engine, mode, requests)?;
    let stats = settle(&engine, server.as_ref());
    if stats.running + stats.blocks_held + stats.slots_used > 0 {
        let (blocks, slots, running) = (stats.blocks_held, stats.slots_used, stats.running);
        return Err(VerifyError::Leak { mode: mode.name, blocks, slots, running });
    }
    engine.shutdown(Duration::from_secs(1));
    server.map(|s| s.shutdown(Duration::from_secs(1)));
    Ok((outputs, stats))
}

/// The figures of both ends once they have had time to free what ended sequences held.
fn settle(engine: &Engine, server: Option<&PrefillServer>) -> Stats {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let mut s = engine.stats();
        if let Some(other) = server.map(PrefillServer::stats) {
            s.add(&other);
            s.running += other.running;
        }
        if s.running + s.blocks_held + s.slots_used == 0 || Instant::now() > end {
            return s;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn difference(request: usize, alone: &Output, here: &Output) -> Option<Difference> {
    if alone == here {
        return None;
    }
    let at = alone.tokens.iter().zip(&here.tokens).take_while(|(a, b)| a == b).count();
    let id = |o: &Output| o.tokens.get(at).map(|t| t.0);
    Some(Difference { request, at, alone: id(alone), here: id(here) })
}
