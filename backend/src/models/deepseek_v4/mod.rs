//! DeepSeek-V4: residual streams with hyper-connections, compressed sparse attention, mixture of experts.

mod attention;
mod caches;
mod compressor;
mod hyper;

use sluicegate_kernels::moe::Score;
use sluicegate_kernels::ops::{Act, Operand, Ops, Rows, Vector};

use super::ModelOptions;
use crate::layers::decoder::FeedForward as _;
use crate::layers::embedding::{Ends, EndsNames, EndsWeights};
use crate::layers::moe::{Moe, MoeRule, MoeWeights, load_expert};
use crate::layers::rope::frequencies;
use crate::layers::{Caches, LoadError};
use crate::weights::config::{DeepseekV4 as Config, ModelConfig};
use crate::weights::{Checkpoint, Dtype, Loader};
use attention::{Attention, AttentionBuffers, AttentionOperands, AttentionSetup, AttentionWeights};
pub(super) use caches::pools;
use hyper::{Hyper, HyperBuffers, HyperEnd, HyperRule, HyperWeights};

const NAMES: EndsNames = EndsNames { embedding: "embed.weight", norm: "norm.weight", head: "head.weight" };

struct ModelWeights {
    ends: EndsWeights,
    end: HyperWeights,
    layers: Vec<LayerWeights>,
}

struct LayerWeights {
    attention_hyper: HyperWeights,
    attention_norm: Vec<f32>,
    attention: AttentionWeights,
    moe_hyper: HyperWeights,
    moe_norm: Vec<f32>,
    moe: MoeWeights,
}

#[derive(Debug)]
struct Layer {
    attention_hyper: Hyper,
    attention_norm: Vector,
    attention: Attention,
    moe_hyper: Hyper,
    moe_norm: Vector,
    moe: Moe,
}

/// The model on a device.
#[derive(Debug)]
pub struct DeepseekV4 {
    eps: f32,
    ends: Ends,
    end: HyperEnd,
    layers: Vec<Layer>,
    hyper: HyperBuffers,
    width: usize,
    streams: Operand,
    operands: AttentionOperands,
    /// A sublayer's result.
    output: Act,
}

pub(super) fn build<D: Ops>(
    checkpoint: &Checkpoint,
    v4: &Config,
    options: ModelOptions,
    device: &mut D,
    caches: &mut Caches,
) -> Result<DeepseekV4, LoadError> {
    let config = checkpoint.config();
    caches::check(v4, options)?;
    let (hidden, n) = (config.hidden_size, v4.hc_mult);
    let ModelWeights { ends, end, layers } = checkpoint.load(|load| load_model(load, config, v4))?;
    let act = |device: &mut D, width| device.act(Rows::Batch, width);
    let hyper = HyperBuffers {
        streams: act(device, n * hidden),
        projected: act(device, (2 + n) * n),
        input: act(device, hidden),
        mix: act(device, n + n * n),
    };
    let rule = HyperRule { norm_eps: config.rms_norm_eps, eps: v4.hc_eps, iterations: v4.hc_sinkhorn_iters };
    let ropes = [v4.rope, v4.compress_rope].map(|r| device.rope(&frequencies(&r, v4.qk_rope_head_dim), 1.0));
    let buffers = attention_buffers(device, v4);
    caches.spec.rewinds = options.draft_tokens;
    let mut setup = AttentionSetup { config, v4, caches, options, ropes, buffers };
    let mut built = Vec::with_capacity(layers.len());
    for (i, w) in layers.iter().enumerate() {
        built.push(Layer {
            attention_hyper: Hyper::build(&w.attention_hyper, device, hyper, rule)?,
            attention_norm: device.vector(&w.attention_norm),
            attention: Attention::build(&w.attention, device, i as u32, &mut setup)?,
            moe_hyper: Hyper::build(&w.moe_hyper, device, hyper, rule)?,
            moe_norm: device.vector(&w.moe_norm),
            moe: Moe::build(&w.moe, device)?,
        });
    }
    let ends = Ends::build(&ends, device)?;
    Ok(DeepseekV4 {
        eps: config.rms_norm_eps,
        end: HyperEnd::build(&end, device, n, rule, ends.last())?,
        ends,
        hyper,
        width: hidden,
        streams: stream_operand(device, &built),
        operands: attention_operands(device, &built),
        output: act(device, hidden),
        layers: built,
    })
}

fn attention_buffers<D: Ops>(device: &mut D, c: &Config) -> AttentionBuffers {
    let heads = c.num_attention_heads * c.head_dim;
    let widest = 2 * c.head_dim.max(c.index_head_dim);
    let mut act = |width| device.act(Rows::Batch, width);
    AttentionBuffers {
        low: act(c.q_lora_rank),
        q: act(heads),
        row: act(c.head_dim),
        heads: act(heads),
        groups: act(c.o_groups * c.o_lora_rank),
        compress: [act(widest), act(widest)],
        index: [act(c.index_n_heads * c.index_head_dim), act(c.index_n_heads)],
        picks: device.picks(c.index_topk),
    }
}

fn stream_operand<D: Ops>(device: &mut D, layers: &[Layer]) -> Operand {
    let readers: Vec<_> = layers.iter().flat_map(|l| [l.attention_hyper.function(), l.moe_hyper.function()]).collect();
    device.operand(Rows::Batch, &readers)
}

fn attention_operands<D: Ops>(device: &mut D, layers: &[Layer]) -> AttentionOperands {
    let mut readers: [Vec<_>; 4] = Default::default();
    for layer in layers {
        readers.iter_mut().zip(layer.attention.readers()).for_each(|(all, new)| all.extend(new));
        readers[0].extend(layer.moe.inputs());
    }
    let [normed, low, group, groups] = readers.map(|r| device.operand(Rows::Batch, &r));
    AttentionOperands { normed, low, group, groups }
}

impl DeepseekV4 {
    pub(super) fn forward<D: Ops>(&self, device: &mut D) {
        let HyperBuffers { streams, input, .. } = self.hyper;
        for stream in 0..streams.width() / self.width {
            self.ends.embed(device, streams.columns(stream * self.width, self.width));
        }
        for layer in &self.layers {
            layer.attention_hyper.before(device, self.streams);
            device.rms_norm(input, layer.attention_norm, self.eps, self.operands.normed);
            layer.attention.forward(device, self.operands, self.output);
            layer.attention_hyper.after(device, self.output);
            layer.moe_hyper.before(device, self.streams);
            device.rms_norm(input, layer.moe_norm, self.eps, self.operands.normed);
            layer.moe.forward(device, self.operands.normed, None, self.output);
            layer.moe_hyper.after(device, self.output);
        }
        self.end.forward(device, streams);
        self.ends.head_of_last(device);
    }

    pub(super) fn logits(&self) -> Act {
        self.ends.logits()
    }
}

/// Asks for every tensor.
pub(super) fn ask(load: &mut Loader<'_>, config: &ModelConfig, v4: &Config) {
    load_model(load, config, v4);
}

fn load_model(load: &mut Loader<'_>, config: &ModelConfig, v4: &Config) -> ModelWeights {
    let n = v4.hc_mult;
    let ends = EndsWeights::load(load, config, NAMES);
    let end = HyperWeights::load(load, "hc_head", n, n * config.hidden_size, 1);
    let layers = (0..config.num_hidden_layers).map(|i| load_layer(load, i, config, v4)).collect();
    // Drafting layers are not run; neither are they an error.
    load.ignore(|name| name.starts_with("mtp."));
    ModelWeights { ends, end, layers }
}

fn load_layer(load: &mut Loader<'_>, layer: usize, config: &ModelConfig, v4: &Config) -> LayerWeights {
    let (prefix, hidden, n) = (format!("layers.{layer}"), config.hidden_size, v4.hc_mult);
    let mut hyper = |name: &str| HyperWeights::load(load, &format!("{prefix}.hc_{name}"), (2 + n) * n, n * hidden, 3);
    let (attention_hyper, moe_hyper) = (hyper("attn"), hyper("ffn"));
    let ratio = v4.compress_ratios[layer];
    LayerWeights {
        attention_hyper,
        moe_hyper,
        attention_norm: load.vector(&format!("{prefix}.attn_norm.weight"), hidden),
        attention: AttentionWeights::load(load, format!("{prefix}.attn"), hidden, v4, ratio),
        moe_norm: load.vector(&format!("{prefix}.ffn_norm.weight"), hidden),
        moe: load_moe(load, format!("{prefix}.ffn"), config, v4, layer < v4.moe.num_hash_layers),
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
