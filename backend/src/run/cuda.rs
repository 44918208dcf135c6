//! From a model folder to an executor on a GPU.

use std::path::Path;

use sluicegate_kernels::cuda::device::{Cuda, embedded};
pub use sluicegate_kernels::cuda::device::{Gpu, Knobs, cuda_version, gpus};

use super::open::{Sizes, open_on};
use super::{CpuRunOptions, Runner, fp4};
use crate::layers::LoadError;
use crate::models::{CacheDtypes, KvCacheDtype};
use crate::weights::Checkpoint;
use crate::weights::config::Family;

/// How a model runs on a GPU. Arithmetic is the tensor cores': bf16 activations, sums in f32.
#[derive(Clone, Copy, Debug)]
pub struct CudaRunOptions {
    /// The driver's number of the GPU.
    pub ordinal: usize,
    /// KV blocks.
    pub blocks: u32,
    /// Tokens in a block, a multiple of 16; 0 is what suits the model.
    pub block_tokens: u32,
    /// Sequences at a time; also the most rows that are sampled in one step.
    pub sequences: u32,
    /// Rows in a step.
    pub rows: u32,
    /// Number formats of caches: bf16 for all but DeepSeek-V4.
    pub dtypes: CacheDtypes,
    /// Round rows as the vendor's kernels do; see [`ModelOptions::simulate`](crate::models::ModelOptions::simulate).
    pub simulate: bool,
    /// Most drafted tokens in a step.
    pub draft_tokens: u32,
    /// Run the model's drafting layer, for which there are no kernels yet.
    pub mtp: bool,
    /// NVFP4 weights meet activations in NVFP4 (W4A4) instead of bf16, on GPUs that have such products.
    pub fp4_activations: bool,
    /// Where work runs; no result depends on it.
    pub knobs: Knobs,
    /// Compiled kernels, instead of those in this binary.
    pub kernels: Option<&'static [&'static [u8]]>,
}

impl Default for CudaRunOptions {
    /// The first GPU with the CPU's sizes, this binary's kernels.
    fn default() -> Self {
        Self::of(0, &CpuRunOptions::default())
    }
}

impl CudaRunOptions {
    /// The sizes and caches of `options`, on a GPU.
    #[must_use]
    pub fn of(ordinal: usize, options: &CpuRunOptions) -> Self {
        let CpuRunOptions { blocks, block_tokens, sequences, rows, dtypes, simulate, draft_tokens, mtp, .. } = *options;
        let (knobs, fp4_activations) = (Knobs::default(), options.fp4_activations);
        Self {
            ordinal,
            blocks,
            block_tokens,
            sequences,
            rows,
            dtypes,
            simulate,
            draft_tokens,
            mtp,
            fp4_activations,
            knobs,
            kernels: None,
        }
    }
}

/// Opens a model folder on a GPU.
///
/// # Errors
/// No driver, no GPU or no kernels; what is wrong with the checkpoint; what the GPU has no memory or no kernels for.
pub fn open_cuda(dir: &Path, options: &CudaRunOptions) -> Result<Runner<Cuda>, LoadError> {
    let CudaRunOptions { blocks, block_tokens, sequences, rows, dtypes, simulate, draft_tokens, mtp, .. } = *options;
    if mtp {
        let text = "a GPU does not run drafting layers yet; use the speculative method \"ngram\", or the cpu";
        return Err(LoadError::Device(text.into()));
    }
    let sizes = Sizes { blocks, block_tokens, sequences, rows, dtypes, simulate, draft_tokens, mtp };
    let checkpoint = Checkpoint::open(dir)?;
    if !matches!(checkpoint.config().family, Family::DeepseekV4(_)) && dtypes.kv != KvCacheDtype::Bf16 {
        let text = format!(
            "a GPU keeps this architecture's keys and values in bf16, not {:?}; choose kv_cache_dtype bf16, or the cpu",
            dtypes.kv
        );
        return Err(LoadError::Device(text));
    }
    let kernels = options.kernels.unwrap_or(embedded());
    if options.fp4_activations {
        fp4::check(&checkpoint)?;
    }
    let mut runner = open_on(&checkpoint, &sizes, |limits| {
        let mut device = Cuda::new(options.ordinal, kernels, limits)?;
        if options.fp4_activations {
            device.quantize_activations()?;
        }
        Ok(device)
    })?;
    runner.tune(options.knobs);
    runner.device.check().map_err(|e| LoadError::Device(e.to_string()))?;
    Ok(runner)
}

impl Runner<Cuda> {
    /// Makes other choices of where work runs, from the next step on.
    pub fn tune(&mut self, knobs: Knobs) {
        self.device.tune(knobs);
    }
}

/// Number of compiled kernel files in this binary.
#[must_use]
pub fn embedded_kernels() -> usize {
    embedded().len()
}
