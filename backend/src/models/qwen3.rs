//! Qwen3: Llama with RMS norms on the heads' queries and keys.

use sluicegate_kernels::ops::Ops;

use super::ModelOptions;
use crate::layers::decoder::{Decoder, DecoderSetup};
use crate::layers::mlp::{Mlp, MlpWeights};
use crate::layers::{Caches, LoadError};
use crate::weights::config::{ModelConfig, Transformer};
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
    Decoder::build(checkpoint, &setup(t, checkpoint.config().hidden_size), options, device, caches)
}

fn setup(t: &Transformer, hidden: usize) -> DecoderSetup<'_, impl Fn(&mut Loader<'_>, &str) -> MlpWeights> {
    let feed =
        move |load: &mut Loader<'_>, prefix: &str| MlpWeights::load(load, prefix.into(), hidden, t.intermediate_size);
    DecoderSetup { attention: &t.attention, head_norms: true, feed }
}

/// Asks for every tensor.
pub(super) fn ask(load: &mut Loader<'_>, config: &ModelConfig, t: &Transformer) {
    setup(t, config.hidden_size).load(load, config);
}
