//! The least time that a step can take: bytes over bandwidth, multiplications over peak, messages over links, each at its data
//! sheet's best and all three at once.

use super::device::Device;
use super::weights::{WeightFormat, Weights};
use crate::models::CacheDtypes;
use crate::weights::config::{Family, ModelConfig};

/// How a model is spread over devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Every layer is divided over all devices.
    Tensor,
    /// Every device attends for its own sequences; routed experts are spread.
    Expert,
}

/// What a token of context costs those that come after it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Attended {
    /// Bytes that one token reads from caches.
    pub(super) bytes: f64,
    /// Multiplications and additions that one token takes in attention.
    pub(super) flops: f64,
}

/// Attention of one token over `context` others, in all layers.
pub(super) fn attended(config: &ModelConfig, dtypes: CacheDtypes, context: f64) -> Attended {
    match &config.family {
        Family::Llama(t) | Family::Qwen3(t) | Family::Qwen3Moe(t, _) => {
            let (a, layers) = (&t.attention, config.num_hidden_layers as f64);
            let size = dtypes.kv_store().map_or(1, sluicegate_kernels::ops::KvStore::size) as f64;
            let row = (2 * a.num_key_value_heads * a.head_dim) as f64 * size;
            let flops = 4.0 * (a.num_attention_heads * a.head_dim) as f64;
            Attended { bytes: layers * row * context, flops: layers * flops * context }
        }
        Family::DeepseekV4(v) => {
            let row = dtypes.rows(v.qk_rope_head_dim).row_bytes(v.head_dim) as f64;
            let key = dtypes.index_rows().row_bytes(v.index_head_dim) as f64;
            let per_row = 4.0 * (v.num_attention_heads * v.head_dim) as f64;
            let per_key = 2.0 * (v.index_n_heads * v.index_head_dim) as f64;
            let window = context.min(v.sliding_window as f64);
            let mut sum = Attended::default();
            for &ratio in &v.compress_ratios {
                let older = if ratio > 0 { context / ratio as f64 } else { 0.0 };
                let indexed = ratio == 4;
                let rows = window + if indexed { older.min(v.index_topk as f64) } else { older };
                sum.bytes += rows * row + if indexed { older * key } else { 0.0 };
                sum.flops += rows * per_row + if indexed { older * per_key } else { 0.0 };
            }
            sum
        }
    }
}

/// Seconds of one step, by what bounds it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floor {
    /// Reading weights and caches.
    pub memory: f64,
    /// Multiplying.
    pub compute: f64,
    /// Sending between devices.
    pub wire: f64,
}

impl Floor {
    /// The step can't be faster, even if all three overlap.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.memory.max(self.compute).max(self.wire)
    }
}

/// A model on devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) weights: &'a Weights,
    pub(super) format: WeightFormat,
    pub(super) dtypes: CacheDtypes,
    pub(super) device: Device,
    pub(super) devices: f64,
    pub(super) layout: Layout,
}

impl Placed<'_> {
    /// Bytes of weights on each device.
    pub(super) fn weights_on_each(&self) -> f64 {
        let (w, n) = (self.weights, self.devices);
        let (ends, routed) = (w.embedding.bytes + w.head.bytes, (w.routed.bytes + w.drafter[1].bytes) / n);
        let copied = w.copied.bytes + w.drafter[0].bytes;
        match self.layout {
            Layout::Tensor => (ends + w.divided.bytes) / n + copied + routed,
            Layout::Expert => ends + w.divided.bytes + copied + routed,
        }
    }

    /// Parts that a sequence's caches are divided into over the devices of a tensor-parallel group.
    pub(super) fn cache_parts(&self) -> f64 {
        match &self.config.family {
            Family::Llama(t) | Family::Qwen3(t) | Family::Qwen3Moe(t, _) => {
                self.devices.min(t.attention.num_key_value_heads as f64)
            }
            // One row serves all heads.
            Family::DeepseekV4(_) => 1.0,
        }
    }

    /// A step of `tokens` rows over all devices, of which `sampled` are followed by a new token, each over `context` tokens;
    /// `reads` rows read the caches on their own (the rows of a prompt's chunk share what they read).
    pub(super) fn floor(&self, tokens: f64, sampled: f64, reads: f64, context: f64) -> Floor {
        let (w, n, d) = (self.weights, self.devices, self.device);
        let seen = attended(self.config, self.dtypes, context);
        let head = if w.head.bytes > 0.0 { w.head } else { w.embedding };
        let routed = w.routed.bytes * w.hit(tokens) / n;
        let (dense, cached) = match self.layout {
            Layout::Tensor => ((w.divided.bytes + head.bytes) / n + w.copied.bytes, seen.bytes / self.cache_parts()),
            Layout::Expert => (w.divided.bytes + head.bytes + w.copied.bytes, seen.bytes / n),
        };
        let [all, used] = w.experts;
        let share = if all > 0.0 { used / all } else { 0.0 };
        let narrow = match self.format {
            WeightFormat::Nvfp4 | WeightFormat::Mxfp4 => d.fp4.unwrap_or(d.bf16),
            WeightFormat::Fp8 => d.fp8,
            WeightFormat::Bf16 => d.bf16,
        };
        let eight = if self.format == WeightFormat::Bf16 { d.bf16 } else { d.fp8 };
        let v4 = matches!(self.config.family, Family::DeepseekV4(_));
        let dense_peak = if v4 { eight } else { narrow };
        let compute = tokens * 2.0 * w.routed.parameters * share / narrow
            + tokens * 2.0 * (w.divided.parameters + w.copied.parameters) / dense_peak
            + (sampled * 2.0 * head.parameters + tokens * seen.flops) / d.bf16;
        Floor {
            memory: (routed + dense + reads * cached) / d.bandwidth,
            compute: compute / n,
            wire: self.wire(tokens) / d.link,
        }
    }

    /// Bytes that each device sends in a step.
    fn wire(&self, tokens: f64) -> f64 {
        let (n, hidden) = (self.devices, self.config.hidden_size as f64);
        let away = (n - 1.0) / n;
        match self.layout {
            // Two sums a layer over all devices, in bfloat16: each device sends its share twice around the ring.
            Layout::Tensor => self.config.num_hidden_layers as f64 * 2.0 * tokens * hidden * 2.0 * 2.0 * away,
            // To each expert a row in FP8, from each one in bfloat16.
            Layout::Expert => self.weights.expert_layers * tokens / n * self.weights.experts[1] * hidden * 3.0 * away,
        }
    }
}
