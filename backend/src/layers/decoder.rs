//! A stack of pre-norm decoder layers with grouped-query attention: Llama, Qwen3 and Qwen3-MoE differ in the heads' norms and in the
//! feed-forward.

use sluicegate_kernels::ops::{Act, Linear, Operand, Ops, Rows, Vector};

use super::attention::{self, Attention, AttentionSetup, AttentionWeights};
use super::embedding::{Ends, EndsWeights, HUGGING_FACE};
use super::{Caches, LoadError};
use crate::models::ModelOptions;
use crate::weights::config::{Attention as AttentionConfig, ModelConfig};
use crate::weights::{Checkpoint, Loader};

/// What follows attention in a layer.
pub trait FeedForward: Sized {
    /// Its tensors.
    type Weights;
    /// Builds it on a device.
    ///
    /// # Errors
    /// If the device refuses a weight.
    fn build<D: Ops>(weights: &Self::Weights, device: &mut D) -> Result<Self, LoadError>;
    /// The linears that read the normed residual stream.
    fn inputs(&self) -> Vec<Linear>;
    /// The linear that reads the shared inner operand, if there is one.
    fn inner(&self) -> Option<Linear>;
    /// Adds to `x`; `inner` is the operand of [`Self::inner`].
    fn forward<D: Ops>(&self, device: &mut D, normed: Operand, inner: Option<Operand>, x: Act);
}

#[derive(Debug)]
struct LayerWeights<W> {
    attention_norm: Vec<f32>,
    attention: AttentionWeights,
    feed_norm: Vec<f32>,
    feed: W,
}

#[derive(Debug)]
struct Layer<F> {
    attention_norm: Vector,
    attention: Attention,
    feed_norm: Vector,
    feed: F,
}

/// The model on a device.
#[derive(Debug)]
pub struct Decoder<F> {
    eps: f32,
    ends: Ends,
    layers: Vec<Layer<F>>,
    x: Act,
    normed: Operand,
    heads: Operand,
    inner: Option<Operand>,
}

/// Tensors of a model, as the checkpoint has them.
#[derive(Debug)]
pub struct DecoderWeights<W> {
    ends: EndsWeights,
    layers: Vec<LayerWeights<W>>,
}

impl<L> DecoderSetup<'_, L> {
    /// Takes every tensor of the model.
    pub fn load<W>(&self, load: &mut Loader<'_>, config: &ModelConfig) -> DecoderWeights<W>
    where
        L: Fn(&mut Loader<'_>, &str) -> W,
    {
        let ends = EndsWeights::load(load, config, HUGGING_FACE);
        let layers = (0..config.num_hidden_layers).map(|i| load_layer(load, i, config, self)).collect();
        // Old checkpoints store the rotary frequencies too.
        load.ignore(|name| name.ends_with(".rotary_emb.inv_freq"));
        DecoderWeights { ends, layers }
    }
}

/// What an architecture chooses.
#[derive(Debug)]
pub struct DecoderSetup<'a, L> {
    /// Attention.
    pub attention: &'a AttentionConfig,
    /// Queries and keys are normalised.
    pub head_norms: bool,
    /// Takes a feed-forward's tensors, given the layer's name.
    pub feed: L,
}

impl<F: FeedForward> Decoder<F> {
    /// Takes the checkpoint's weights to a device.
    ///
    /// # Errors
    /// All that is wrong with the checkpoint, or what the device can't take.
    pub fn build<D: Ops, L: Fn(&mut Loader<'_>, &str) -> F::Weights>(
        checkpoint: &Checkpoint,
        arch: &DecoderSetup<'_, L>,
        options: ModelOptions,
        device: &mut D,
        caches: &mut Caches,
    ) -> Result<Self, LoadError> {
        let config = checkpoint.config();
        let DecoderWeights { ends, layers } = checkpoint.load(|load| arch.load(load, config))?;
        let (rope, qkv) = attention::shared(device, arch.attention);
        let mut setup = AttentionSetup { caches, store: options.dtypes.kv_store()?, rope, qkv };
        let mut built: Vec<Layer<F>> = Vec::with_capacity(layers.len());
        for (i, w) in layers.iter().enumerate() {
            built.push(Layer {
                attention_norm: device.vector(&w.attention_norm),
                attention: Attention::build(&w.attention, device, i as u32, &mut setup)?,
                feed_norm: device.vector(&w.feed_norm),
                feed: F::build(&w.feed, device)?,
            });
        }
        // Keys and values only, a row a token.
        setup.caches.spec.rewinds = u32::MAX;
        let mut readers: Vec<_> = built.iter().map(|l| l.attention.input()).collect();
        readers.extend(built.iter().flat_map(|l| l.feed.inputs()));
        let outputs: Vec<_> = built.iter().map(|l| l.attention.output()).collect();
        let inner: Vec<_> = built.iter().filter_map(|l| l.feed.inner()).collect();
        Ok(Self {
            eps: config.rms_norm_eps,
            ends: Ends::build(&ends, device)?,
            x: device.act(Rows::Batch, config.hidden_size),
            normed: device.operand(Rows::Batch, &readers),
            heads: device.operand(Rows::Batch, &outputs),
            inner: (!inner.is_empty()).then(|| device.operand(Rows::Batch, &inner)),
            layers: built,
        })
    }

    /// Runs the step that the device has begun; `after` is called behind each layer.
    pub fn forward<D: Ops>(&self, device: &mut D, after: &mut impl FnMut(&D, u32)) {
        self.ends.embed(device, self.x);
        for (number, layer) in (0..).zip(&self.layers) {
            device.rms_norm(self.x, layer.attention_norm, self.eps, self.normed);
            layer.attention.forward(device, self.normed, self.heads, self.x);
            device.rms_norm(self.x, layer.feed_norm, self.eps, self.normed);
            layer.feed.forward(device, self.normed, self.inner, self.x);
            after(device, number);
        }
        self.ends.head(device, self.x);
    }

    /// Where the logits of the rows to sample are.
    #[must_use]
    pub fn logits(&self) -> Act {
        self.ends.logits()
    }
}

fn load_layer<W, L: Fn(&mut Loader<'_>, &str) -> W>(
    load: &mut Loader<'_>,
    layer: usize,
    config: &ModelConfig,
    arch: &DecoderSetup<'_, L>,
) -> LayerWeights<W> {
    let (prefix, hidden) = (format!("model.layers.{layer}"), config.hidden_size);
    let attention_norm = load.vector(&format!("{prefix}.input_layernorm.weight"), hidden);
    let attention = AttentionWeights::load(load, format!("{prefix}.self_attn"), hidden, arch.attention);
    let attention = if arch.head_norms { attention.with_head_norms(load, config.rms_norm_eps) } else { attention };
    let feed_norm = load.vector(&format!("{prefix}.post_attention_layernorm.weight"), hidden);
    LayerWeights { attention_norm, attention, feed_norm, feed: (arch.feed)(load, &format!("{prefix}.mlp")) }
}
