//! The drafting layer (multi-token prediction): from a token, and the streams of the token before it, what follows the token.
//!
//! DeepSeek pairs the streams of position `i` with token `i + 1`. Here that pair is the row of position `i + 1`: a row then depends
//! on nothing after its position, so that its caches are shared, moved and freed by blocks like all others. The first
//! token has no streams before it and no row. A step of the model keeps the rows of its tokens; drafting runs the layer
//! itself, a token at a time, and feeds its own streams back where the model's are not known yet. What drafting leaves in the
//! caches is written again by the step that checks the draft.

use sluicegate_kernels::ops::{Act, KvStore, Linear, Operand, Ops, Rows, Vector};
use sluicegate_kernels::rows::RowStore;
use sluicegate_kernels::sparse::WindowPool;

use super::attention::AttentionSetup;
use super::caches::streams_pool;
use super::hyper::{HyperBuffers, HyperEnd, HyperRule, HyperWeights};
use super::layer::{Layer, LayerKind, LayerWeights, Shared};
use crate::layers::embedding::Ends;
use crate::layers::{LoadError, matrix, named};
use crate::weights::config::{DeepseekV4 as Config, ModelConfig};
use crate::weights::{self, Loader};

const PREFIX: &str = "mtp.0";

/// Tensors of the drafting layer, as the checkpoint has them. Embedding and output head are the model's.
pub(super) struct MtpWeights {
    token_norm: Vec<f32>,
    token: weights::Linear,
    stream_norm: Vec<f32>,
    stream: weights::Linear,
    layer: LayerWeights,
    end: HyperWeights,
    norm: Vec<f32>,
}

/// The drafting layer on a device.
#[derive(Debug)]
pub(super) struct Mtp {
    token_norm: Vector,
    token: (Linear, Operand),
    stream_norm: Vector,
    stream: (Linear, Operand),
    layer: Layer,
    end: HyperEnd,
    norm: Vector,
    /// Streams behind the model's last layer, or behind this one, of the newest tokens.
    kept: WindowPool,
    /// Streams of the tokens before the step's.
    before: Act,
}

impl MtpWeights {
    /// None, and a complaint, if the checkpoint has none.
    pub(super) fn load(load: &mut Loader<'_>, config: &ModelConfig, v4: &Config) -> Option<Self> {
        let own = |name: &str| name.starts_with("mtp.0.");
        // Further layers are not run; copies of the model's own tensors are not read.
        load.ignore(|n| n.starts_with("mtp.") && (!own(n) || n.contains(".emb") || n == "mtp.0.head.weight"));
        if load.lacks(own) {
            let what = "is missing: this checkpoint has no drafting layer; the speculative method \"ngram\" needs none";
            load.complain(PREFIX, what);
            return None;
        }
        let (hidden, n) = (config.hidden_size, v4.hc_mult);
        let name = |part: &str| format!("{PREFIX}.{part}");
        Some(Self {
            token_norm: load.vector(&name("enorm.weight"), hidden),
            token: load.linear(&name("e_proj"), hidden, hidden),
            stream_norm: load.vector(&name("hnorm.weight"), hidden),
            stream: load.linear(&name("h_proj"), hidden, hidden),
            layer: LayerWeights::load(load, PREFIX, LayerKind { ratio: 0, hashed: false }, (config, v4)),
            end: HyperWeights::load(load, &name("hc_head"), n, n * hidden, 1),
            norm: load.vector(&name("norm.weight"), hidden),
        })
    }
}

fn projection<D: Ops>(w: &weights::Linear, name: &str, device: &mut D) -> Result<(Linear, Operand), LoadError> {
    let prefix = format!("{PREFIX}.{name}");
    let matrix = matrix::linear(w).map_err(named(&prefix))?;
    let linear = device.stack(&[&matrix]).map_err(named(&prefix))?;
    Ok((linear, device.operand(Rows::Batch, &[linear])))
}

impl Mtp {
    pub(super) fn build<D: Ops>(
        w: &MtpWeights,
        device: &mut D,
        setup: &mut AttentionSetup<'_>,
        (hyper, rule): (HyperBuffers, HyperRule),
        ends: &Ends,
    ) -> Result<Self, LoadError> {
        let number = setup.config.num_hidden_layers as u32;
        let layer = Layer::build(&w.layer, device, number, setup, (hyper, rule))?.starting_at(1);
        let (spec, ring) = streams_pool(setup.config, setup.v4, setup.options);
        let pool = setup.caches.pool(device, spec)?;
        Ok(Self {
            token_norm: device.vector(&w.token_norm),
            token: projection(&w.token, "e_proj", device)?,
            stream_norm: device.vector(&w.stream_norm),
            stream: projection(&w.stream, "h_proj", device)?,
            layer,
            end: HyperEnd::build(&w.end, device, setup.v4.hc_mult, rule, ends.last())?,
            norm: device.vector(&w.norm),
            kept: WindowPool { pool, ring, store: RowStore::Plain(KvStore::F32) },
            before: device.act(Rows::Batch, hyper.streams.width()),
        })
    }

    /// The layer, for what it shares with the model's.
    pub(super) fn layer(&self) -> &Layer {
        &self.layer
    }

    /// Behind the model's layers: keeps their streams, and of this layer what later tokens see.
    pub(super) fn follow<D: Ops>(&self, device: &mut D, ends: &Ends, shared: &Shared) {
        device.preceding_rows(shared.hyper.streams, &self.kept, self.before);
        device.keep_rows(shared.hyper.streams, &self.kept);
        self.join(device, ends, shared);
        self.layer.keep(device, shared);
    }

    /// Logits of the token after each row's, from kept streams; the layer's own are kept in their place.
    pub(super) fn draft<D: Ops>(&self, device: &mut D, ends: &Ends, shared: &Shared) {
        let streams = shared.hyper.streams;
        device.preceding_rows(streams, &self.kept, self.before);
        self.join(device, ends, shared);
        self.layer.forward(device, shared);
        device.keep_rows(streams, &self.kept);
        self.end.forward(device, streams);
        ends.head_after(device, self.norm);
    }

    /// `streams[k] = h_proj . norm(before[k]) + e_proj . norm(embedding of the token)`.
    fn join<D: Ops>(&self, device: &mut D, ends: &Ends, shared: &Shared) {
        let HyperBuffers { streams, input, .. } = shared.hyper;
        ends.embed(device, input);
        device.rms_norm(input, self.token_norm, shared.eps, self.token.1);
        for from in (0..streams.width()).step_by(input.width()) {
            let (before, stream) = (self.before.columns(from, input.width()), streams.columns(from, input.width()));
            device.rms_norm(before, self.stream_norm, shared.eps, self.stream.1);
            device.linear(self.stream.1, self.stream.0, stream);
            device.linear_add(self.token.1, self.token.0, stream);
        }
    }
}
