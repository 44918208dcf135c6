//! One layer: attention, then experts, each between hyper-connections.

use sluicegate_kernels::moe::Score;
use sluicegate_kernels::ops::{Act, Linear, Operand, Ops, Rows, Vector};

use super::attention::{Attention, AttentionOperands, AttentionSetup, AttentionWeights};
use super::hyper::{Hyper, HyperBuffers, HyperRule, HyperWeights};
use crate::layers::LoadError;
use crate::layers::decoder::FeedForward as _;
use crate::layers::moe::{Moe, MoeRule, MoeWeights, load_expert};
use crate::weights::config::{DeepseekV4 as Config, ModelConfig};
use crate::weights::{Dtype, Loader};

/// Tensors of one layer, as the checkpoint has them.
pub(super) struct LayerWeights {
    attention_hyper: HyperWeights,
    attention_norm: Vec<f32>,
    attention: AttentionWeights,
    moe_hyper: HyperWeights,
    moe_norm: Vec<f32>,
    moe: MoeWeights,
}

/// What tells layers apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerKind {
    /// Tokens of a compressed row; 0: none.
    pub(super) ratio: usize,
    /// Experts are looked up by token id.
    pub(super) hashed: bool,
}

/// What all layers work with in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub(super) hyper: HyperBuffers,
    /// The streams, for hyper-connections.
    pub(super) streams: Operand,
    pub(super) attention: AttentionOperands,
    /// A sublayer's result.
    pub(super) output: Act,
    pub(super) eps: f32,
}

/// A layer on a device.
#[derive(Debug)]
pub(super) struct Layer {
    attention_hyper: Hyper,
    attention_norm: Vector,
    attention: Attention,
    moe_hyper: Hyper,
    moe_norm: Vector,
    moe: Moe,
}

impl LayerWeights {
    pub(super) fn load(
        load: &mut Loader<'_>,
        prefix: &str,
        kind: LayerKind,
        (config, v4): (&ModelConfig, &Config),
    ) -> Self {
        let (hidden, n) = (config.hidden_size, v4.hc_mult);
        let mut hyper =
            |name: &str| HyperWeights::load(load, &format!("{prefix}.hc_{name}"), (2 + n) * n, n * hidden, 3);
        let (attention_hyper, moe_hyper) = (hyper("attn"), hyper("ffn"));
        Self {
            attention_hyper,
            moe_hyper,
            attention_norm: load.vector(&format!("{prefix}.attn_norm.weight"), hidden),
            attention: AttentionWeights::load(load, format!("{prefix}.attn"), hidden, v4, kind.ratio),
            moe_norm: load.vector(&format!("{prefix}.ffn_norm.weight"), hidden),
            moe: load_moe(load, format!("{prefix}.ffn"), config, v4, kind.hashed),
        }
    }
}

impl Shared {
    /// Makes the operands that these layers' linears read.
    pub(super) fn build<'a, D: Ops>(
        device: &mut D,
        layers: impl Iterator<Item = &'a Layer> + Clone,
        hyper: HyperBuffers,
        eps: f32,
    ) -> Self {
        let mixing = layers.clone().flat_map(|l| [l.attention_hyper.function(), l.moe_hyper.function()]);
        let mixing: Vec<Linear> = mixing.collect();
        let mut readers: [Vec<Linear>; 4] = Default::default();
        for layer in layers {
            readers.iter_mut().zip(layer.attention.readers()).for_each(|(all, new)| all.extend(new));
            readers[0].extend(layer.moe.inputs());
        }
        let streams = device.operand(Rows::Batch, &mixing);
        let [normed, low, group, groups] = readers.map(|r| device.operand(Rows::Batch, &r));
        let output = device.act(Rows::Batch, hyper.input.width());
        Self { hyper, streams, attention: AttentionOperands { normed, low, group, groups }, output, eps }
    }
}

impl Layer {
    /// Builds layer number `layer`.
    pub(super) fn build<D: Ops>(
        w: &LayerWeights,
        device: &mut D,
        layer: u32,
        setup: &mut AttentionSetup<'_>,
        (hyper, rule): (HyperBuffers, HyperRule),
    ) -> Result<Self, LoadError> {
        Ok(Self {
            attention_hyper: Hyper::build(&w.attention_hyper, device, hyper, rule)?,
            attention_norm: device.vector(&w.attention_norm),
            attention: Attention::build(&w.attention, device, layer, setup)?,
            moe_hyper: Hyper::build(&w.moe_hyper, device, hyper, rule)?,
            moe_norm: device.vector(&w.moe_norm),
            moe: Moe::build(&w.moe, device)?,
        })
    }

    /// Tokens before this position have no rows in its window.
    pub(super) fn starting_at(self, first: usize) -> Self {
        Self { attention: self.attention.starting_at(first), ..self }
    }

    /// Takes the streams through the layer.
    pub(super) fn forward<D: Ops>(&self, device: &mut D, s: &Shared) {
        self.enter(device, s);
        self.attention.forward(device, s.attention, s.output);
        self.attention_hyper.after(device, s.output);
        self.moe_hyper.before(device, s.streams);
        device.rms_norm(s.hyper.input, self.moe_norm, s.eps, s.attention.normed);
        self.moe.forward(device, s.attention.normed, None, s.output);
        self.moe_hyper.after(device, s.output);
    }

    /// Keeps what later tokens see of these and computes nothing else. Only of a layer without a compressor.
    pub(super) fn keep<D: Ops>(&self, device: &mut D, s: &Shared) {
        self.enter(device, s);
        self.attention.keep(device, s.attention.normed);
    }

    /// From the streams to the input of attention.
    fn enter<D: Ops>(&self, device: &mut D, s: &Shared) {
        self.attention_hyper.before(device, s.streams);
        device.rms_norm(s.hyper.input, self.attention_norm, s.eps, s.attention.normed);
    }
}

fn load_moe(load: &mut Loader<'_>, prefix: String, config: &ModelConfig, v4: &Config, hashed: bool) -> MoeWeights {
    let (c, hidden, names) = (&v4.moe, config.hidden_size, ["w1", "w3", "w2"]);
    let rule = MoeRule {
        score: Score::SqrtSoftplus,
        normalize: c.norm_topk_prob,
        factor: c.routed_scaling_factor,
        limit: Some(c.swiglu_limit),
        per_token: c.num_experts_per_tok,
    };
    let mut expert = |e| load_expert(load, &format!("{prefix}.experts.{e}"), names, hidden, c.moe_intermediate_size);
    let experts = (0..c.n_routed_experts).map(&mut expert).collect();
    let wide = c.n_shared_experts * c.moe_intermediate_size;
    let shared = load_expert(load, &format!("{prefix}.shared_experts"), names, hidden, wide);
    MoeWeights {
        rule,
        router: load.linear(&format!("{prefix}.gate"), c.n_routed_experts, hidden),
        bias: (!hashed).then(|| load.vector(&format!("{prefix}.gate.bias"), c.n_routed_experts)),
        by_token: hashed.then(|| expert_table(load, &format!("{prefix}.gate.tid2eid"), config.vocab_size, v4)),
        experts,
        shared: Some(shared),
        prefix,
    }
}

/// Experts of each token id.
fn expert_table(load: &mut Loader<'_>, name: &str, vocab: usize, v4: &Config) -> Vec<u32> {
    let t = load.tensor(name, &[vocab, v4.moe.num_experts_per_tok], &[Dtype::I64, Dtype::I32]);
    let experts = 0..v4.moe.n_routed_experts as i64;
    let ids = t.to_i64().unwrap_or_default();
    if let Some(at) = ids.iter().position(|id| !experts.contains(id)) {
        let token = at / v4.moe.num_experts_per_tok;
        load.complain(name, format!("gives token {token} expert {} of {}", ids[at], experts.end));
    }
    ids.into_iter().map(|id| id as u32).collect()
}
