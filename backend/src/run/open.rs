//! From a model folder to an executor.

use std::path::Path;

use sluicegate_kernels::batch::Limits;
use sluicegate_kernels::cpu::{Arithmetic, Cpu, CpuOptions, Isa};
use sluicegate_kernels::ops::{DeviceError, Ops};

use super::{Runner, fp4};
use crate::exec::{Capacity, ModelSpec};
use crate::layers::LoadError;
use crate::models::{CacheDtypes, Model, ModelOptions};
use crate::weights::Checkpoint;
use crate::weights::config::Family;

/// How a model runs on the CPU.
#[derive(Clone, Copy, Debug)]
pub struct CpuRunOptions {
    /// KV blocks of `block_tokens`, or of 16 tokens where that is left to the model: memory is for as many tokens.
    pub blocks: u32,
    /// Tokens in a block, a multiple of 16; 0 is what suits the model, see [`ModelOptions::sized`].
    pub block_tokens: u32,
    /// Sequences at a time; also the most rows that are sampled in one step.
    pub sequences: u32,
    /// Rows in a step.
    pub rows: u32,
    /// Number formats of caches.
    pub dtypes: CacheDtypes,
    /// Round what the vendor's kernels round; see [`ModelOptions::simulate`]. In front of FP8 and FP4 weights, too.
    pub simulate: bool,
    /// Most drafted tokens in a step; see [`ModelOptions::draft_tokens`].
    pub draft_tokens: u32,
    /// Run the model's drafting layer; see [`ModelOptions::mtp`].
    pub mtp: bool,
    /// NVFP4 weights meet activations in NVFP4 (W4A4), not in 16 bits: reference arithmetic, and GPUs that have such products.
    pub fp4_activations: bool,
    /// Reference or fast.
    pub arithmetic: Arithmetic,
    /// Threads; 0 is one for each core that the process may use.
    pub threads: usize,
}

impl Default for CpuRunOptions {
    /// Fast arithmetic, BF16 cache of 32,768 tokens, 64 sequences, roundings as the vendor's.
    fn default() -> Self {
        Self {
            blocks: 2048,
            block_tokens: 0,
            sequences: 64,
            rows: 512,
            dtypes: CacheDtypes::BF16,
            simulate: true,
            draft_tokens: 0,
            mtp: false,
            fp4_activations: false,
            arithmetic: Arithmetic::Fast,
            threads: 0,
        }
    }
}

impl CpuRunOptions {
    /// The specification: f32 activations and cache, weights decoded exactly, nothing rounded.
    #[must_use]
    pub fn reference() -> Self {
        Self { dtypes: CacheDtypes::F32, simulate: false, arithmetic: Arithmetic::Reference, ..Self::default() }
    }
}

/// Opens a model folder on the CPU.
///
/// # Errors
/// What is wrong with the checkpoint, or why the device can't run it.
pub fn open_cpu(dir: &Path, options: &CpuRunOptions) -> Result<Runner<Cpu>, LoadError> {
    let checkpoint = Checkpoint::open(dir)?;
    let fp4_activations = options.fp4_activations;
    if fp4_activations {
        fp4::check(&checkpoint)?;
        if options.arithmetic != Arithmetic::Reference {
            let text = "nvfp4_gemm = \"w4a4\" on the cpu needs arithmetic = \"reference\"; use \"w4a16\", or a GPU";
            return Err(LoadError::Device(text.into()));
        }
    }
    let plain = CpuOptions::default();
    let threads = if options.threads == 0 { plain.threads } else { options.threads };
    // It is DeepSeek's kernels that are known to round these.
    let round_activations = options.simulate && matches!(checkpoint.config().family, Family::DeepseekV4(_));
    let arithmetic = options.arithmetic;
    let cpu = CpuOptions { threads, arithmetic, isa: Isa::best(), round_activations, fp4_activations };
    open_on(&checkpoint, &Sizes::from(options), |limits| Cpu::new(cpu, limits))
}

/// What every device has to know; see [`CpuRunOptions`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) blocks: u32,
    pub(super) block_tokens: u32,
    pub(super) sequences: u32,
    pub(super) rows: u32,
    pub(super) dtypes: CacheDtypes,
    pub(super) simulate: bool,
    pub(super) draft_tokens: u32,
    pub(super) mtp: bool,
}

impl From<&CpuRunOptions> for Sizes {
    fn from(options: &CpuRunOptions) -> Self {
        let CpuRunOptions { blocks, block_tokens, sequences, rows, dtypes, simulate, draft_tokens, mtp, .. } = *options;
        Self { blocks, block_tokens, sequences, rows, dtypes, simulate, draft_tokens, mtp }
    }
}

/// Builds a checkpoint's model on the device that `make` gives for its limits.
pub(super) fn open_on<D: Ops>(
    checkpoint: &Checkpoint,
    sizes: &Sizes,
    make: impl FnOnce(Limits) -> Result<D, DeviceError>,
) -> Result<Runner<D>, LoadError> {
    let config = checkpoint.config();
    let context = config.max_position_embeddings;
    let Sizes { dtypes, simulate, draft_tokens, mtp, .. } = *sizes;
    let wanted = ModelOptions { dtypes, simulate, draft_tokens, mtp, block_tokens: sizes.block_tokens };
    let model_options = wanted.sized(config);
    let block_tokens = model_options.block_tokens;
    // As many tokens, in blocks as large as the model needs.
    let unit = if sizes.block_tokens == 0 { 16 } else { sizes.block_tokens };
    let blocks = (u64::from(sizes.blocks) * u64::from(unit) / u64::from(block_tokens.max(1))) as u32;
    let limits = Limits {
        rows: sizes.rows as usize,
        samples: sizes.sequences as usize,
        table_entries: sizes.sequences as usize * context.div_ceil(block_tokens.max(1) as usize),
        block_tokens: block_tokens as usize,
        blocks: blocks as usize,
        slots: sizes.sequences as usize,
    };
    let mut device = make(limits).map_err(|e| LoadError::Device(e.to_string()))?;
    let (model, caches) = Model::build(checkpoint, model_options, &mut device)?;
    let spec = ModelSpec {
        architecture: config.architecture.clone(),
        vocab_size: config.vocab_size as u32,
        context_length: context as u32,
        eos_ids: checkpoint.eos_ids().to_vec(),
        cache: caches.spec.clone(),
    };
    let capacity = Capacity { blocks, sequences: sizes.sequences, rows: sizes.rows };
    Ok(Runner::new(device, model, caches, spec, capacity))
}
