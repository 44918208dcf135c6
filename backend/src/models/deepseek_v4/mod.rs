//! DeepSeek-V4: residual streams with hyper-connections, compressed sparse attention, mixture of experts, a drafting layer.

mod attention;
mod caches;
mod compressor;
mod hyper;
mod layer;
mod mtp;

use sluicegate_kernels::ops::{Act, Ops, Rows};

use super::ModelOptions;
use crate::layers::embedding::{Ends, EndsNames, EndsWeights};
use crate::layers::rope::frequencies;
use crate::layers::{Caches, LoadError};
use crate::weights::config::{DeepseekV4 as Config, ModelConfig};
use crate::weights::{Checkpoint, Loader};
use attention::{AttentionBuffers, AttentionSetup};
pub(super) use caches::{drafting_pools, pools};
use hyper::{HyperBuffers, HyperEnd, HyperRule, HyperWeights};
use layer::{Layer, LayerKind, LayerWeights, Shared};
use mtp::{Mtp, MtpWeights};

const NAMES: EndsNames = EndsNames { embedding: "embed.weight", norm: "norm.weight", head: "head.weight" };

struct ModelWeights {
    ends: EndsWeights,
    end: HyperWeights,
    layers: Vec<LayerWeights>,
    mtp: Option<MtpWeights>,
}

/// The model on a device.
#[derive(Debug)]
pub struct DeepseekV4 {
    ends: Ends,
    end: HyperEnd,
    layers: Vec<Layer>,
    shared: Shared,
    mtp: Option<Mtp>,
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
    let ModelWeights { ends, end, layers, mtp } = checkpoint.load(|load| load_model(load, config, v4, options.mtp))?;
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
        built.push(Layer::build(w, device, i as u32, &mut setup, (hyper, rule))?);
    }
    let ends = Ends::build(&ends, device)?;
    let mtp = mtp.map(|w| Mtp::build(&w, device, &mut setup, (hyper, rule), &ends)).transpose()?;
    let all = built.iter().chain(mtp.iter().map(Mtp::layer));
    Ok(DeepseekV4 {
        end: HyperEnd::build(&end, device, n, rule, ends.last())?,
        ends,
        shared: Shared::build(device, all, hyper, config.rms_norm_eps),
        layers: built,
        mtp,
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

impl DeepseekV4 {
    pub(super) fn forward<D: Ops>(&self, device: &mut D, after: &mut impl FnMut(&D, u32)) {
        let HyperBuffers { streams, input, .. } = self.shared.hyper;
        for from in (0..streams.width()).step_by(input.width()) {
            self.ends.embed(device, streams.columns(from, input.width()));
        }
        for (number, layer) in (0..).zip(&self.layers) {
            layer.forward(device, &self.shared);
            after(device, number);
        }
        self.end.forward(device, streams);
        self.ends.head_of_last(device);
        if let Some(mtp) = &self.mtp {
            mtp.follow(device, &self.ends, &self.shared);
        }
    }

    /// Whether [`Self::draft`] does anything.
    pub(super) fn drafts(&self) -> bool {
        self.mtp.is_some()
    }

    /// The drafting layer, for one row of each sequence.
    pub(super) fn draft<D: Ops>(&self, device: &mut D) {
        if let Some(mtp) = &self.mtp {
            mtp.draft(device, &self.ends, &self.shared);
        }
    }

    pub(super) fn logits(&self) -> Act {
        self.ends.logits()
    }
}

/// Asks for every tensor.
pub(super) fn ask(load: &mut Loader<'_>, config: &ModelConfig, v4: &Config, mtp: bool) {
    load_model(load, config, v4, mtp);
}

fn load_model(load: &mut Loader<'_>, config: &ModelConfig, v4: &Config, mtp: bool) -> ModelWeights {
    let n = v4.hc_mult;
    let ends = EndsWeights::load(load, config, NAMES);
    let end = HyperWeights::load(load, "hc_head", n, n * config.hidden_size, 1);
    let kind = |i: usize| LayerKind { ratio: v4.compress_ratios[i], hashed: i < v4.moe.num_hash_layers };
    let layers = (0..config.num_hidden_layers)
        .map(|i| LayerWeights::load(load, &format!("layers.{i}"), kind(i), (config, v4)))
        .collect();
    if mtp {
        return ModelWeights { ends, end, layers, mtp: MtpWeights::load(load, config, v4) };
    }
    // A drafting layer that nobody asked for is no error.
    load.ignore(|name| name.starts_with("mtp."));
    ModelWeights { ends, end, layers, mtp: None }
}
