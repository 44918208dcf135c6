//! Llama 2 and 3, SmolLM2 and their like: pre-norm, grouped-query attention, SwiGLU.

use sluicegate_kernels::ops::{Act, Build, Operand, Ops, Rows, Vector};

use super::ModelOptions;
use crate::layers::attention::{self, Attention, AttentionSetup, AttentionWeights};
use crate::layers::embedding::{Ends, EndsWeights, HUGGING_FACE};
use crate::layers::mlp::{Mlp, MlpWeights};
use crate::layers::{Caches, LoadError};
use crate::weights::config::{ModelConfig, Transformer};
use crate::weights::{Checkpoint, Loader};

struct LayerWeights {
    attention_norm: Vec<f32>,
    attention: AttentionWeights,
    mlp_norm: Vec<f32>,
    mlp: MlpWeights,
}

/// One decoder layer.
#[derive(Debug)]
struct Layer {
    attention_norm: Vector,
    attention: Attention,
    mlp_norm: Vector,
    mlp: Mlp,
}

/// The model on a device.
#[derive(Debug)]
pub struct Llama {
    eps: f32,
    ends: Ends,
    layers: Vec<Layer>,
    x: Act,
    normed: Operand,
    heads: Operand,
    inner: Operand,
}

impl Llama {
    pub(super) fn build<D: Build>(
        checkpoint: &Checkpoint,
        t: &Transformer,
        options: ModelOptions,
        device: &mut D,
        caches: &mut Caches,
    ) -> Result<Self, LoadError> {
        let config = checkpoint.config();
        let (ends, layers) = checkpoint.load(|load| {
            let ends = EndsWeights::load(load, config, HUGGING_FACE);
            let layers: Vec<_> = (0..config.num_hidden_layers).map(|i| load_layer(load, i, config, t)).collect();
            (ends, layers)
        })?;
        let (rope, qkv) = attention::shared(device, &t.attention);
        let mut setup = AttentionSetup { caches, store: options.kv_store, rope, qkv };
        let mut built = Vec::with_capacity(layers.len());
        for (i, w) in layers.iter().enumerate() {
            built.push(Layer {
                attention_norm: device.vector(&w.attention_norm),
                attention: Attention::build(&w.attention, device, i as u32, &mut setup)?,
                mlp_norm: device.vector(&w.mlp_norm),
                mlp: Mlp::build(&w.mlp, device)?,
            });
        }
        let readers: Vec<_> = built.iter().flat_map(|l| [l.attention.input(), l.mlp.input()]).collect();
        let outputs: Vec<_> = built.iter().map(|l| l.attention.output()).collect();
        let downs: Vec<_> = built.iter().map(|l| l.mlp.output()).collect();
        Ok(Self {
            eps: config.rms_norm_eps,
            ends: Ends::build(&ends, device)?,
            x: device.act(Rows::Batch, config.hidden_size),
            normed: device.operand(Rows::Batch, &readers),
            heads: device.operand(Rows::Batch, &outputs),
            inner: device.operand(Rows::Batch, &downs),
            layers: built,
        })
    }

    pub(super) fn forward<D: Ops>(&self, device: &mut D) {
        self.ends.embed(device, self.x);
        for layer in &self.layers {
            device.rms_norm(self.x, layer.attention_norm, self.eps, self.normed);
            layer.attention.forward(device, self.normed, self.heads, self.x);
            device.rms_norm(self.x, layer.mlp_norm, self.eps, self.normed);
            layer.mlp.forward(device, self.normed, self.inner, self.x);
        }
        self.ends.head(device, self.x);
    }

    pub(super) fn logits(&self) -> Act {
        self.ends.logits()
    }
}

fn load_layer(load: &mut Loader<'_>, layer: usize, config: &ModelConfig, t: &Transformer) -> LayerWeights {
    let (prefix, hidden) = (format!("model.layers.{layer}"), config.hidden_size);
    LayerWeights {
        attention_norm: load.vector(&format!("{prefix}.input_layernorm.weight"), hidden),
        attention: AttentionWeights::load(load, format!("{prefix}.self_attn"), hidden, &t.attention),
        mlp_norm: load.vector(&format!("{prefix}.post_attention_layernorm.weight"), hidden),
        mlp: MlpWeights::load(load, format!("{prefix}.mlp"), hidden, t.intermediate_size),
    }
}
