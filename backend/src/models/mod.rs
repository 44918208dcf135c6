//! The architectures. Adding one is a file here and a row in [`Model::build`] and [`Model::forward`].

mod llama;

use sluicegate_kernels::ops::{Act, Build, KvStore, Ops};

use crate::layers::{Caches, LoadError};
use crate::weights::config::Family;
use crate::weights::{Checkpoint, WeightsError};
use llama::Llama;

/// What a model is built with.
#[derive(Clone, Copy, Debug)]
pub struct ModelOptions {
    /// Number format of cached keys and values.
    pub kv_store: KvStore,
    /// Tokens in a KV block.
    pub block_tokens: u32,
}

/// A model on a device.
#[derive(Debug)]
pub enum Model {
    /// Llama and its like.
    Llama(Llama),
}

impl Model {
    /// Takes a checkpoint's weights over to a device.
    ///
    /// # Errors
    /// All that is wrong with the checkpoint, or what the device can't take.
    pub fn build<D: Build>(
        checkpoint: &Checkpoint,
        options: ModelOptions,
        device: &mut D,
    ) -> Result<(Self, Caches), LoadError> {
        let config = checkpoint.config();
        let mut caches = Caches::new(options.block_tokens);
        let model = match &config.family {
            Family::Llama(t) => Self::Llama(Llama::build(checkpoint, t, options, device, &mut caches)?),
            Family::Qwen3(_) | Family::Qwen3Moe(..) | Family::DeepseekV4(_) => {
                return Err(LoadError::Weights(WeightsError::UnknownArchitecture {
                    path: checkpoint.dir().join("config.json"),
                    architecture: config.architecture.clone(),
                    supported: "LlamaForCausalLM",
                }));
            }
        };
        Ok((model, caches))
    }

    /// Runs the step that the device has begun.
    pub fn forward<D: Ops>(&self, device: &mut D) {
        match self {
            Self::Llama(m) => m.forward(device),
        }
    }

    /// Where the logits of the rows to sample are.
    #[must_use]
    pub fn logits(&self) -> Act {
        match self {
            Self::Llama(m) => m.logits(),
        }
    }
}
