//! The executor's contract: one device with one model's weights and KV pools, that runs plans and decides nothing.

use std::ops::Range;
use std::sync::Arc;

use crate::api::{Logprobs, Sampling};
use crate::draft::Drafter;
pub use sluicegate_kernels::peer::PeerPools;

/// One per-layer cache of an architecture. KV memory, prefix cache, host tier and transfer work from this alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// For people and the layout hash: "kv", "window", "csa", "index_k".
    pub name: &'static str,
    /// The layer that owns it.
    pub layer: u32,
    /// Context tokens that one row covers: 1 for plain KV, 4 or 128 for compressed rows. Divides `block_tokens`.
    pub tokens_per_row: u32,
    /// Bytes of one row.
    pub row_bytes: u32,
}

/// State of one sequence in one layer that is not addressed by token: a compressor's pending slots, a window ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StateSpec {
    /// For people and the layout hash.
    pub name: &'static str,
    /// The layer that owns it.
    pub layer: u32,
    /// Bytes per sequence.
    pub bytes: u32,
}

/// What an architecture keeps per block of tokens and per sequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct CacheSpec {
    /// Context tokens in a KV block. A block id names the same block in every pool.
    pub block_tokens: u32,
    /// Number formats of the rows, for people and the layout hash.
    pub formats: String,
    /// All pools of all layers; the pools of one layer complete as one.
    pub pools: Vec<PoolSpec>,
    /// All per-sequence states.
    pub states: Vec<StateSpec>,
    /// The last tokens from which rows may be computed again, over what later ones have left in the caches: so long may a
    /// wrong draft be. All tokens where every row stands for itself; few or none where a cache sums up tokens as it goes.
    pub rewinds: u32,
}

impl CacheSpec {
    /// Bytes that one block holds over all pools.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.pool_bytes(0..self.pools.len())
    }

    /// Bytes that one block holds in these pools.
    ///
    /// # Panics
    /// If there are no such pools.
    #[must_use]
    pub fn pool_bytes(&self, pools: Range<usize>) -> usize {
        let rows = |p: &PoolSpec| self.block_tokens as usize / p.tokens_per_row as usize * p.row_bytes as usize;
        self.pools[pools].iter().map(rows).sum()
    }

    /// Bytes of state that one sequence holds.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.states.iter().map(|s| s.bytes as usize).sum()
    }
}

/// What the scheduler needs to know of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Architecture as config.json names it.
    pub architecture: String,
    /// Number of logits.
    pub vocab_size: u32,
    /// Longest sequence, prompt and output together.
    pub context_length: u32,
    /// End-of-sequence ids of the checkpoint's generation config.
    pub eos_ids: Vec<u32>,
    /// Caches.
    pub cache: CacheSpec,
}

/// How much the executor has allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// KV blocks; ids are `0..blocks`.
    pub blocks: u32,
    /// Per-sequence state slots, ids are `0..sequences`; also the most rows that one plan samples.
    pub sequences: u32,
    /// Most rows in one plan.
    pub rows: u32,
}

/// The rows of one sequence in a plan: consecutive tokens that continue what its blocks hold.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSequence {
    /// First row in `Plan::tokens`.
    pub row: u32,
    /// Number of rows: a prefill chunk, or 1 for decode, or a draft to verify.
    pub rows: u32,
    /// Position of the first row, so the number of tokens already cached.
    pub start: u32,
    /// First entry of its block table in `Plan::block_tables`.
    pub table: u32,
    /// Entries of its block table; they cover at least `start + rows` tokens.
    pub table_len: u32,
    /// Its state slot.
    pub slot: u32,
}

/// Vocabulary bits a grammar admits, 32 tokens a word, lowest bit first.
pub type TokenMask = Arc<[u32]>;

/// One row whose next token is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRow {
    /// Row in `Plan::tokens`.
    pub row: u32,
    /// Parameters.
    pub sampling: Arc<Sampling>,
    /// Position of the token to be drawn: with the seed it keys the random draw, so that batching can't move it.
    pub position: u32,
    /// Prompt then output so far, only when a penalty needs it; `prompt_len` splits it.
    pub history: Option<Arc<[u32]>>,
    /// Prompt tokens at the front of `history`.
    pub prompt_len: u32,
    /// Grammar.
    pub mask: Option<TokenMask>,
    /// Alternatives whose log probability is wanted.
    pub logprobs: Option<u8>,
}

impl SampleRow {
    /// The token after `tokens`, of which the first `prompt_len` are the prompt, and after a `draft`, to be drawn at row `row`.
    #[must_use]
    pub fn after(row: u32, sampling: &Arc<Sampling>, (tokens, prompt_len): (&[u32], usize), draft: &[u32]) -> Self {
        let s = sampling;
        let needs_history = s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0;
        let history = || tokens.iter().chain(draft).copied().collect();
        Self {
            row,
            sampling: Arc::clone(s),
            position: (tokens.len() + draft.len()) as u32,
            history: needs_history.then(history),
            prompt_len: prompt_len as u32,
            mask: None,
            logprobs: None,
        }
    }
}

/// One step: which rows to run, over which blocks, and which of them to sample. Plain data, the same on every rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Input token of each row.
    pub tokens: Vec<u32>,
    /// Sequences, in row order.
    pub sequences: Vec<PlanSequence>,
    /// All block tables, one after another.
    pub block_tables: Vec<u32>,
    /// Rows to sample, in row order.
    pub samples: Vec<SampleRow>,
}

impl Plan {
    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        let Self { tokens, sequences, block_tables, samples } = self;
        tokens.clear();
        sequences.clear();
        block_tables.clear();
        samples.clear();
    }
}

/// The token drawn for one [`SampleRow`].
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Token id.
    pub id: u32,
    /// When asked for.
    pub logprobs: Option<Box<Logprobs>>,
}

/// Why a step failed. The executor is unusable afterwards unless the variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// The plan breaks the contract (a bug of the scheduler); nothing was run.
    #[error("plan refused: {0}")]
    BadPlan(String),
    /// The device failed.
    #[error("device failed: {0}")]
    Device(String),
}

/// What a device keeps of sequences, to be copied out.
pub trait CacheReader {
    /// What there is.
    fn cache(&self) -> &CacheSpec;
    /// Copies these pools of a block out, `CacheSpec::pool_bytes` long, in declaration order.
    fn read_pools(&self, block: u32, pools: Range<usize>, out: &mut [u8]);
    /// Copies a sequence's state out, `CacheSpec::state_bytes` long.
    fn read_state(&self, slot: u32, out: &mut [u8]);
    /// Copies all pools of a block out.
    fn read_block(&self, block: u32, out: &mut [u8]) {
        self.read_pools(block, 0..self.cache().pools.len(), out);
    }
}

/// Sees layers complete while a step runs.
pub trait Watch {
    /// Every row of the step is complete in every pool of the first `layers` layers. Of the other layers nothing is known.
    fn layers_done(&mut self, layers: u32, device: &dyn CacheReader);
}

/// Nobody looks.
impl Watch for () {
    fn layers_done(&mut self, _: u32, _: &dyn CacheReader) {}
}

/// A device with a model. Owned by one worker thread; every method is synchronous.
///
/// Output of a row depends on its sequence's tokens and on nothing else: not on the other rows of the plan, not on
/// how a prompt was cut into chunks, not on which blocks or slots hold it.
pub trait Executor: CacheReader + Send {
    /// The model.
    fn model(&self) -> &ModelSpec;
    /// What is allocated.
    fn capacity(&self) -> Capacity;
    /// Runs one step: appends the rows' KV to their blocks and draws a token for each sample row, in order, into `out`.
    ///
    /// # Errors
    /// See [`ExecError`].
    fn run(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError>;
    /// Like [`Self::run`], and tells `watch` of layers that are complete before the step is: by default, or where a device can't
    /// tell, of none.
    ///
    /// # Errors
    /// See [`ExecError`].
    fn run_watched(&mut self, plan: &Plan, out: &mut Vec<Sampled>, watch: &mut dyn Watch) -> Result<(), ExecError> {
        let _ = watch;
        self.run(plan, out)
    }
    /// Runs the model's drafting layer over one row of each sequence, its last token, and draws a guess at the token after it for
    /// each sample row as [`Self::run`] would draw the token. What it leaves in the blocks, `run` writes again. Not cheaper than its
    /// contract: [`Self::drafter`] says whether there is such a layer.
    ///
    /// # Errors
    /// See [`ExecError`]; [`ExecError::BadPlan`] without such a layer.
    fn draft(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError> {
        out.clear();
        Err(ExecError::BadPlan(format!("a draft of {} rows for a model without a drafting layer", plan.tokens.len())))
    }
    /// The model's own drafter, if it has drafting layers.
    fn drafter(&self) -> Option<Box<dyn Drafter>> {
        None
    }
    /// Clears a state slot for a new sequence.
    fn reset_slot(&mut self, slot: u32);
    /// Writes these pools of a block, as [`CacheReader::read_pools`] gives them.
    fn write_pools(&mut self, block: u32, pools: Range<usize>, bytes: &[u8]);
    /// Writes all pools of a block.
    fn write_block(&mut self, block: u32, bytes: &[u8]) {
        let pools = 0..self.cache().pools.len();
        self.write_pools(block, pools, bytes);
    }
    /// Writes a sequence's state.
    fn write_state(&mut self, slot: u32, bytes: &[u8]);
    /// A description by which another executor with the same model, in this process or in another of this machine, can read this
    /// one's blocks without the host between. `nonce` is random.
    ///
    /// # Errors
    /// [`ExecError::Device`] where the device has no such way.
    fn export(&mut self, nonce: [u8; 16]) -> Result<Vec<u8>, ExecError> {
        let _ = nonce;
        no_peers()
    }
    /// Reaches the blocks that another executor exported.
    ///
    /// # Errors
    /// [`ExecError::Device`] says why that is not possible; the executor stays usable.
    fn reach(&mut self, export: &[u8]) -> Result<PeerPools, ExecError> {
        let _ = export;
        no_peers()
    }
    /// Starts to copy these pools of a block of another executor into one of this. They are here after [`Self::settle`], and until then
    /// neither may be written.
    ///
    /// # Errors
    /// [`ExecError::Device`].
    fn pull_pools(
        &mut self,
        from: &PeerPools,
        (theirs, mine): (u32, u32),
        pools: Range<usize>,
    ) -> Result<(), ExecError> {
        let _ = (from, theirs, mine, pools);
        no_peers()
    }
    /// Waits for what was pulled.
    ///
    /// # Errors
    /// [`ExecError::Device`].
    fn settle(&mut self) -> Result<(), ExecError> {
        Ok(())
    }
}

fn no_peers<T>() -> Result<T, ExecError> {
    Err(ExecError::Device("this device has no memory that other devices can reach".into()))
}
