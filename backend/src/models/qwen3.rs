//! Qwen3: Llama with RMS norms on the heads' queries and keys.

use sluicegate_kernels::ops::Ops;

use super::ModelOptions;
use crate::layers::decoder::{Decoder, DecoderSetup};
use crate::layers::mlp::{Mlp, MlpWeights};
use crate::layers::{Caches, LoadError};
use crate::weights::config::Transformer;
use crate::weights::{Checkpoint, Loader};

/// The model on a device.
pub(super) type Qwen3 = Decoder<Mlp>;

pub(super) fn build<D: Ops>(
    checkpoint: &Checkpoint,
    t: &Transformer,
    options: ModelOptions,
    device: &mut D,
    caches: &mut Caches,
) -> Result<Qwen3, LoadError> {
    let hidden = checkpoint.config().hidden_size;
    let feed = |load: &mut Loader<'_>, prefix: &str| MlpWeights::load(load, prefix.into(), hidden, t.intermediate_size);
    let setup = DecoderSetup { attention: &t.attention, head_norms: true, feed };
    Decoder::build(checkpoint, &setup, options, device, caches)
}
