//! The two ends of a model: token embedding, and final norm with the output head over the rows to sample.

use sluicegate_kernels::ops::{Act, Build, Linear, Operand, Ops, Rows, Table, Vector};

use super::{LoadError, matrix, named};
use crate::weights::config::ModelConfig;
use crate::weights::{Loader, Tensor};

/// Tensors of both ends, as the checkpoint has them.
#[derive(Debug)]
pub struct EndsWeights {
    embedding: Tensor,
    norm: Vec<f32>,
    /// None where the head is the embedding.
    head: Option<Tensor>,
    eps: f32,
}

/// Where the tensors are found.
#[derive(Clone, Copy, Debug)]
pub struct EndsNames {
    /// Embedding.
    pub embedding: &'static str,
    /// Final norm.
    pub norm: &'static str,
    /// Head.
    pub head: &'static str,
}

/// Hugging Face's names for Llama, Qwen3 and their like.
pub const HUGGING_FACE: EndsNames =
    EndsNames { embedding: "model.embed_tokens.weight", norm: "model.norm.weight", head: "lm_head.weight" };

impl EndsWeights {
    /// Takes embedding, final norm, and the head unless it is tied.
    pub fn load(load: &mut Loader<'_>, config: &ModelConfig, names: EndsNames) -> Self {
        let (vocab, hidden) = (config.vocab_size, config.hidden_size);
        let embedding = load.matrix(names.embedding, vocab, hidden);
        let norm = load.vector(names.norm, hidden);
        if config.tie_word_embeddings {
            // Some exporters write the tied head once more.
            load.ignore(|name| name == names.head);
        }
        let head = (!config.tie_word_embeddings).then(|| load.matrix(names.head, vocab, hidden));
        Self { embedding, norm, head, eps: config.rms_norm_eps }
    }
}

/// Both ends on a device.
#[derive(Debug)]
pub struct Ends {
    embedding: Table,
    norm: Vector,
    head: Linear,
    eps: f32,
    last: Act,
    normed: Operand,
    logits: Act,
}

impl Ends {
    /// Builds both ends.
    ///
    /// # Errors
    /// If the device refuses a tensor.
    pub fn build<D: Build>(w: &EndsWeights, device: &mut D) -> Result<Self, LoadError> {
        let embedding = matrix::float(&w.embedding).map_err(named(w.embedding.name()))?;
        let tensor = w.head.as_ref().unwrap_or(&w.embedding);
        let matrix = matrix::float(tensor).map_err(named(tensor.name()))?;
        let head = device.head(&matrix).map_err(named(tensor.name()))?;
        Ok(Self {
            embedding: device.table(&embedding).map_err(named(w.embedding.name()))?,
            norm: device.vector(&w.norm),
            head,
            eps: w.eps,
            last: device.act(Rows::Samples, matrix.cols),
            normed: device.operand(Rows::Samples, &[head]),
            logits: device.act(Rows::Samples, matrix.rows),
        })
    }

    /// `x = embedding of the tokens`.
    pub fn embed<D: Ops>(&self, device: &mut D, x: Act) {
        device.embed(self.embedding, x);
    }

    /// Logits of the rows to sample.
    pub fn head<D: Ops>(&self, device: &mut D, x: Act) {
        device.gather(x, self.last);
        self.head_of_last(device);
    }

    /// The rows to sample, before the final norm.
    #[must_use]
    pub fn last(&self) -> Act {
        self.last
    }

    /// Logits of what is in [`Self::last`].
    pub fn head_of_last<D: Ops>(&self, device: &mut D) {
        self.head_after(device, self.norm);
    }

    /// The same behind another norm than the model's final one.
    pub fn head_after<D: Ops>(&self, device: &mut D, norm: Vector) {
        device.rms_norm(self.last, norm, self.eps, self.normed);
        device.linear(self.normed, self.head, self.logits);
    }

    /// The buffer of the logits.
    #[must_use]
    pub fn logits(&self) -> Act {
        self.logits
    }
}
