//! The architectures. Adding one is a file here and a row in [`Model::build`] and [`Model::forward`].

mod cache;
mod deepseek_v4;
mod llama;
mod qwen3;
mod qwen3_moe;

use sluicegate_kernels::ops::{Act, Ops};

use crate::layers::{Caches, LoadError};
use crate::weights::config::{Family, ModelConfig};
use crate::weights::{self, Asked, Checkpoint};
pub(crate) use cache::kv_pool;
pub use cache::{CacheDtypes, IndexCacheDtype, KvCacheDtype, cache_spec};
use deepseek_v4::DeepseekV4;
use llama::Llama;
use qwen3::Qwen3;
use qwen3_moe::Qwen3Moe;

/// What a model is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelOptions {
    /// Number formats of caches.
    pub dtypes: CacheDtypes,
    /// Round what the vendor's kernels round (DeepSeek-V4: key-value rows to E4M3, index queries and keys to E2M1 after a
    /// Hadamard transform), even where it is kept in more bits.
    pub simulate: bool,
    /// Tokens that a step may run ahead of what is accepted: caches keep what taking them back needs.
    pub draft_tokens: u32,
    /// Run the model's drafting layer (DeepSeek-V4: MTP).
    pub mtp: bool,
    /// Tokens in a KV block; see [`ModelOptions::sized`].
    pub block_tokens: u32,
}

/// A model on a device.
#[derive(Debug)]
pub enum Model {
    /// Llama and its like.
    Llama(Llama),
    /// Qwen3.
    Qwen3(Qwen3),
    /// Qwen3 with experts.
    Qwen3Moe(Qwen3Moe),
    /// DeepSeek-V4.
    DeepseekV4(Box<DeepseekV4>),
}

/// Every tensor that a model of this config has; with `mtp` those of its drafting layer too.
#[must_use]
pub fn survey(config: &ModelConfig, mtp: bool) -> Vec<Asked> {
    weights::survey(config, |load| match &config.family {
        Family::Llama(t) => llama::ask(load, config, t),
        Family::Qwen3(t) => qwen3::ask(load, config, t),
        Family::Qwen3Moe(t, moe) => qwen3_moe::ask(load, config, t, moe),
        Family::DeepseekV4(v4) => deepseek_v4::ask(load, config, v4, mtp),
    })
}

impl Model {
    /// Takes a checkpoint's weights over to a device.
    ///
    /// # Errors
    /// All that is wrong with the checkpoint, or what the device can't take.
    pub fn build<D: Ops>(
        checkpoint: &Checkpoint,
        options: ModelOptions,
        device: &mut D,
    ) -> Result<(Self, Caches), LoadError> {
        options.check_mtp(checkpoint.config())?;
        let mut formats = options.formats(checkpoint.config());
        if let Some(layout) = device.block_layout() {
            formats = format!("{formats}, {layout}");
        }
        let mut caches = Caches::new(options.block_tokens, formats);
        let c = &mut caches;
        let model = match &checkpoint.config().family {
            Family::Llama(t) => Self::Llama(llama::build(checkpoint, t, options, device, c)?),
            Family::Qwen3(t) => Self::Qwen3(qwen3::build(checkpoint, t, options, device, c)?),
            Family::Qwen3Moe(t, moe) => Self::Qwen3Moe(qwen3_moe::build(checkpoint, (t, moe), options, device, c)?),
            Family::DeepseekV4(v) => Self::DeepseekV4(Box::new(deepseek_v4::build(checkpoint, v, options, device, c)?)),
        };
        Ok((model, caches))
    }

    /// Runs the step that the device has begun. `after` is called behind each layer, with its number: its operations have been called,
    /// which an eager device has run by then.
    pub fn forward<D: Ops>(&self, device: &mut D, after: &mut impl FnMut(&D, u32)) {
        match self {
            Self::Llama(m) | Self::Qwen3(m) => m.forward(device, after),
            Self::Qwen3Moe(m) => m.forward(device, after),
            Self::DeepseekV4(m) => m.forward(device, after),
        }
    }

    /// Whether there is a drafting layer to run.
    #[must_use]
    pub fn drafts(&self) -> bool {
        matches!(self, Self::DeepseekV4(m) if m.drafts())
    }

    /// Runs the drafting layer over the step that the device has begun: one row of each sequence, the token whose successor is
    /// to be guessed. Nothing without such a layer.
    pub fn draft<D: Ops>(&self, device: &mut D) {
        if let Self::DeepseekV4(m) = self {
            m.draft(device);
        }
    }

    /// Where the logits of the rows to sample are.
    #[must_use]
    pub fn logits(&self) -> Act {
        match self {
            Self::Llama(m) | Self::Qwen3(m) => m.logits(),
            Self::Qwen3Moe(m) => m.logits(),
            Self::DeepseekV4(m) => m.logits(),
        }
    }
}
