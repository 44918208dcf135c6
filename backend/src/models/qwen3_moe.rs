//! Qwen3-MoE: Qwen3 with a mixture of experts in every layer.

use sluicegate_kernels::moe::Score;
use sluicegate_kernels::ops::Ops;

use super::ModelOptions;
use crate::layers::decoder::{Decoder, DecoderSetup};
use crate::layers::moe::{Moe, MoeRule, MoeWeights, load_expert};
use crate::layers::{Caches, LoadError};
use crate::weights::config::{ModelConfig, Moe as Config, Transformer};
use crate::weights::{Checkpoint, Loader};

/// The model on a device.
pub(super) type Qwen3Moe = Decoder<Moe>;

pub(super) fn build<D: Ops>(
    checkpoint: &Checkpoint,
    (t, moe): (&Transformer, &Config),
    options: ModelOptions,
    device: &mut D,
    caches: &mut Caches,
) -> Result<Qwen3Moe, LoadError> {
    Decoder::build(checkpoint, &setup(t, moe, checkpoint.config().hidden_size), options, device, caches)
}

fn setup<'a>(
    t: &'a Transformer,
    moe: &'a Config,
    hidden: usize,
) -> DecoderSetup<'a, impl Fn(&mut Loader<'_>, &str) -> MoeWeights> {
    let feed = move |load: &mut Loader<'_>, prefix: &str| load_moe(load, prefix, hidden, moe);
    DecoderSetup { attention: &t.attention, head_norms: true, feed }
}

/// Asks for every tensor.
pub(super) fn ask(load: &mut Loader<'_>, config: &ModelConfig, t: &Transformer, moe: &Config) {
    setup(t, moe, config.hidden_size).load(load, config);
}

fn load_moe(load: &mut Loader<'_>, prefix: &str, hidden: usize, config: &Config) -> MoeWeights {
    let (names, inner) = (["gate_proj", "up_proj", "down_proj"], config.moe_intermediate_size);
    let rule = MoeRule {
        score: Score::Softmax,
        normalize: config.norm_topk_prob,
        factor: 1.0,
        limit: None,
        per_token: config.num_experts_per_tok,
    };
    let mut expert = |e| load_expert(load, &format!("{prefix}.experts.{e}"), names, hidden, inner);
    let experts = (0..config.num_experts).map(&mut expert).collect();
    let router = load.linear(&format!("{prefix}.gate"), config.num_experts, hidden);
    MoeWeights { prefix: prefix.into(), rule, router, bias: None, by_token: None, experts, shared: None }
}
