//! Operations of hyper-connections: a residual of several streams that are mixed in front of and after each sublayer.
//! Part of the specification, like [`crate::ops`].

use crate::ops::{Act, Vector};

/// Arguments of [`HyperOps::hyper_pre`]. With `n` streams of width `d`:
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HyperPre {
    /// The streams side by side, `n * d`.
    pub streams: Act,
    /// The streams times the mixing matrix, `(2 + n) * n`: pre, post, and the combination `[source][destination]`.
    pub projected: Act,
    /// Factors of the three parts.
    pub scale: Vector,
    /// Added to `projected * scale`.
    pub base: Vector,
    /// Added to the mean square of the streams.
    pub norm_eps: f32,
    /// Added in gates and in Sinkhorn's divisions.
    pub eps: f32,
    /// Sinkhorn normalisations.
    pub iterations: usize,
    /// The sublayer's input, `d`.
    pub input: Act,
    /// For [`HyperOps::hyper_post`], `n + n * n`: how much of the output each stream gets, and the combination.
    pub mix: Act,
}

/// Arguments of [`HyperOps::hyper_head`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HyperHead {
    /// The streams side by side, `n * d`.
    pub streams: Act,
    /// The streams times the mixing matrix, `n`.
    pub projected: Act,
    /// One factor.
    pub scale: Vector,
    /// Added to `projected * scale`.
    pub base: Vector,
    /// Added to the mean square of the streams.
    pub norm_eps: f32,
    /// Added to gates.
    pub eps: f32,
    /// The streams' weighted sum, `d`.
    pub out: Act,
}

/// Hyper-connections.
pub trait HyperOps {
    /// With `m = projected * rsqrt(mean(streams^2) + norm_eps)`:
    /// `pre = sigmoid(m_pre * scale[0] + base) + eps`, `post = 2 sigmoid(m_post * scale[1] + base)`; the combination is the
    /// softmax over destinations of `m_comb * scale[2] + base`, plus `eps`, divided by column sums, then `iterations - 1` times by
    /// row sums and column sums (each plus `eps`). `input = sum_i pre_i stream_i`.
    fn hyper_pre(&mut self, args: &HyperPre);
    /// `stream'_b = post_b * output + sum_a comb[a][b] * stream_a`.
    fn hyper_post(&mut self, output: Act, mix: Act, streams: Act);
    /// `out = sum_i (sigmoid(m_i * scale + base_i) + eps) stream_i`.
    fn hyper_head(&mut self, args: &HyperHead);
}
