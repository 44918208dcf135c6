//! Weights of a model by what they are for, from its config alone.

use crate::models::survey;
use crate::weights::Asked;
use crate::weights::config::{Family, ModelConfig};

/// Number format of the matrices that a checkpoint quantizes: all linear layers, of DeepSeek-V4 the routed experts (its other
/// linear layers are FP8 with a scale for each 128 x 128, unless all is BF16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightFormat {
    /// 4-bit floats, an E4M3 scale for each 16.
    Nvfp4,
    /// 4-bit floats, a power-of-two scale for each 32.
    Mxfp4,
    /// 8-bit floats, a scale for each 128 x 128.
    Fp8,
    /// bfloat16.
    Bf16,
}

/// Some weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// Numbers, scales not counted.
    pub parameters: f64,
    /// Bytes, scales included.
    pub bytes: f64,
}

impl Part {
    fn add(&mut self, parameters: f64, bytes: f64) {
        self.parameters += parameters;
        self.bytes += bytes;
    }
}

/// All weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weights {
    /// Token embedding: a row a token is read.
    pub embedding: Part,
    /// Output head, the embedding's copy if it is tied.
    pub head: Part,
    /// Routed experts.
    pub routed: Part,
    /// What every token uses and tensor parallelism divides: projections of heads, feed-forward, shared experts.
    pub divided: Part,
    /// What every token uses and every device holds: norms, routers, low-rank projections, compressors.
    pub copied: Part,
    /// The drafting layer without its routed experts, and those.
    pub drafter: [Part; 2],
    /// Routed experts in a layer, and how many of them a token uses.
    pub experts: [f64; 2],
    /// Layers with routed experts.
    pub expert_layers: f64,
}

impl WeightFormat {
    fn bytes(self, rows: f64, cols: f64) -> f64 {
        let n = rows * cols;
        match self {
            // Two more numbers a tensor: its scale and its input's.
            Self::Nvfp4 => n / 2.0 + n / 16.0 + 8.0,
            Self::Mxfp4 => n / 2.0 + n / 32.0,
            Self::Fp8 => n + (rows / 128.0).ceil() * (cols / 128.0).ceil(),
            Self::Bf16 => 2.0 * n,
        }
    }
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Bytes as published checkpoints keep it.
fn bytes(t: &Asked, v4: bool, format: WeightFormat) -> f64 {
    let n = t.elements() as f64;
    if !t.linear {
        let single = ["hc_", "attn_sink", ".ape", "gate.bias"].iter().any(|s| t.name.contains(s));
        return match last(&t.name) {
            "tid2eid" => 4.0 * n,
            _ if single => 4.0 * n,
            _ => 2.0 * n,
        };
    }
    let narrow = !matches!(last(&t.name), "gate" | "weights_proj") && !t.name.contains(".compressor.");
    let format = match format {
        WeightFormat::Bf16 => WeightFormat::Bf16,
        _ if !narrow => WeightFormat::Bf16,
        _ if v4 && !t.name.contains(".experts.") => WeightFormat::Fp8,
        chosen => chosen,
    };
    format.bytes(t.shape[0] as f64, t.shape[1] as f64)
}

/// Whether tensor parallelism divides it by heads, groups or inner width.
fn is_divided(name: &str) -> bool {
    const BY_HEAD: [&str; 3] = ["wq_b", "wo_a", "wo_b"];
    const FEED: [&str; 3] = ["w1", "w2", "w3"];
    let projection = last(name).ends_with("_proj") && last(name) != "weights_proj";
    projection || FEED.contains(&last(name)) || (BY_HEAD.contains(&last(name)) && !name.contains(".indexer."))
}

impl Weights {
    /// Adds up a model's tensors; with `mtp` those of its drafting layer too.
    #[must_use]
    pub fn of(config: &ModelConfig, format: WeightFormat, mtp: bool) -> Self {
        let (v4, experts) = match &config.family {
            Family::DeepseekV4(v) => (true, [v.moe.n_routed_experts, v.moe.num_experts_per_tok]),
            Family::Qwen3Moe(_, m) => (false, [m.num_experts, m.num_experts_per_tok]),
            Family::Llama(_) | Family::Qwen3(_) => (false, [0, 0]),
        };
        let layers = if experts[0] > 0 { config.num_hidden_layers } else { 0 };
        let experts = experts.map(|n| n as f64);
        let mut sum = Self { experts, expert_layers: layers as f64, ..Self::default() };
        for t in survey(config, mtp) {
            // A table of experts by token holds no weights.
            let n = if t.name.ends_with("tid2eid") { 0.0 } else { t.elements() as f64 };
            let part = match t.name.as_str() {
                name if name.starts_with("mtp.") => &mut sum.drafter[usize::from(name.contains(".experts."))],
                name if name.starts_with("embed.") || name.contains("embed_tokens") => &mut sum.embedding,
                name if name.starts_with("head.") || name.starts_with("lm_head") => &mut sum.head,
                name if name.contains(".experts.") => &mut sum.routed,
                name if is_divided(name) => &mut sum.divided,
                _ => &mut sum.copied,
            };
            part.add(n, bytes(&t, v4, format));
        }
        sum
    }

    /// All of them; a tied head is the embedding.
    #[must_use]
    pub fn total(&self) -> Part {
        let mut all = Part::default();
        let model = [self.embedding, self.head, self.routed, self.divided, self.copied];
        for p in model.into_iter().chain(self.drafter) {
            all.add(p.parameters, p.bytes);
        }
        all
    }

    /// The drafting layer.
    #[must_use]
    pub fn drafting(&self) -> Part {
        let [rest, routed] = self.drafter;
        Part { parameters: rest.parameters + routed.parameters, bytes: rest.bytes + routed.bytes }
    }

    /// Part of the routed experts that `tokens` random tokens use in a layer, on average.
    #[must_use]
    pub fn hit(&self, tokens: f64) -> f64 {
        let [all, used] = self.experts;
        if all == 0.0 { 0.0 } else { 1.0 - (1.0 - used / all).powf(tokens) }
    }

    /// Numbers that a token is multiplied with, the head included.
    #[must_use]
    pub fn active(&self) -> f64 {
        let [all, used] = self.experts;
        let routed = if all == 0.0 { 0.0 } else { self.routed.parameters * used / all };
        let head = if self.head.parameters > 0.0 { self.head.parameters } else { self.embedding.parameters };
        routed + self.divided.parameters + self.copied.parameters + head
    }
}
