//! Parameters of DeepSeek-V4, under the keys of DeepSeek's own config.json.

use serde::Deserialize;
use serde_json::Value;

use super::rope::{Rope, RopeScaling, rope};
use super::{in_range, section};

/// DeepSeek-V4.
#[derive(Clone, Debug, PartialEq)]
pub struct DeepseekV4 {
    /// Query heads; they share one key-value row.
    pub num_attention_heads: usize,
    /// Width of a head and of the key-value row.
    pub head_dim: usize,
    /// The last elements of a head, which are rotated.
    pub qk_rope_head_dim: usize,
    /// Rank of the query projection.
    pub q_lora_rank: usize,
    /// Rank of a group's output projection.
    pub o_lora_rank: usize,
    /// Groups of heads in the output projection.
    pub o_groups: usize,
    /// Uncompressed rows that a token attends to, itself included.
    pub sliding_window: usize,
    /// For each layer, tokens per compressed row: 0 for none, else 4 or 128.
    pub compress_ratios: Vec<usize>,
    /// Positions of layers without compression.
    pub rope: Rope,
    /// Positions of layers with compression.
    pub compress_rope: Rope,
    /// Heads of the indexer.
    pub index_n_heads: usize,
    /// Width of an indexer head.
    pub index_head_dim: usize,
    /// Compressed rows that the indexer selects.
    pub index_topk: usize,
    /// Experts.
    pub moe: V4Moe,
    /// Residual streams.
    pub hc_mult: usize,
    /// Sinkhorn normalisations of the stream mixing matrix.
    pub hc_sinkhorn_iters: usize,
    /// Added in hyper-connections.
    pub hc_eps: f32,
    /// Drafting layers in the checkpoint.
    pub num_nextn_predict_layers: usize,
    /// Why the first of them can't be run, if it can't.
    pub mtp_refusal: Option<String>,
}

/// Experts of DeepSeek-V4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct V4Moe {
    /// Routed experts in a layer.
    pub n_routed_experts: usize,
    /// Shared experts, run as one of their summed width.
    pub n_shared_experts: usize,
    /// Routed experts that a token uses.
    pub num_experts_per_tok: usize,
    /// Width of an expert.
    pub moe_intermediate_size: usize,
    /// First layers, whose experts are looked up by token id.
    pub num_hash_layers: usize,
    /// Weights of the chosen experts are scaled to sum to 1 before [`V4Moe::routed_scaling_factor`].
    pub norm_topk_prob: bool,
    /// Factor on routed weights.
    pub routed_scaling_factor: f32,
    /// Bound of the gate (from above) and of the up projection (both sides).
    pub swiglu_limit: f32,
}

#[derive(Deserialize)]
struct Raw {
    num_hidden_layers: usize,
    num_attention_heads: usize,
    head_dim: usize,
    qk_rope_head_dim: usize,
    q_lora_rank: usize,
    o_lora_rank: usize,
    o_groups: usize,
    sliding_window: usize,
    compress_ratios: Vec<usize>,
    compress_rope_theta: f64,
    index_n_heads: usize,
    index_head_dim: usize,
    index_topk: usize,
    n_routed_experts: usize,
    #[serde(default)]
    n_shared_experts: usize,
    num_experts_per_tok: usize,
    moe_intermediate_size: usize,
    #[serde(alias = "n_hash_layers")]
    num_hash_layers: usize,
    scoring_func: String,
    #[serde(default)]
    norm_topk_prob: bool,
    routed_scaling_factor: f64,
    swiglu_limit: f64,
    hc_mult: usize,
    hc_sinkhorn_iters: usize,
    hc_eps: f64,
    #[serde(default)]
    num_nextn_predict_layers: usize,
    dspark_block_size: Option<usize>,
}

pub(super) fn v4(json: &Value) -> Result<DeepseekV4, String> {
    let raw: Raw = section(json)?;
    check(&raw)?;
    let scaled = rope(json)?;
    if matches!(scaled.scaling, RopeScaling::Llama3 { .. } | RopeScaling::Linear { .. }) {
        return Err("DeepSeek-V4 takes rope scaling `yarn` only".into());
    }
    let mut compress_ratios = raw.compress_ratios;
    // Entries past the decoder's layers describe drafting layers.
    let mtp_refusal = match (raw.dspark_block_size, compress_ratios.get(raw.num_hidden_layers)) {
        (Some(_), _) => Some("is part of a DSpark drafter (dspark_block_size), which is not supported".to_owned()),
        (None, Some(&ratio)) if ratio > 0 => Some(format!("has a compressor of ratio {ratio}, which is not supported")),
        _ => None,
    };
    compress_ratios.truncate(raw.num_hidden_layers);
    Ok(DeepseekV4 {
        num_attention_heads: raw.num_attention_heads,
        head_dim: raw.head_dim,
        qk_rope_head_dim: raw.qk_rope_head_dim,
        q_lora_rank: raw.q_lora_rank,
        o_lora_rank: raw.o_lora_rank,
        o_groups: raw.o_groups,
        sliding_window: raw.sliding_window,
        compress_ratios,
        rope: Rope { theta: scaled.theta, scaling: RopeScaling::None },
        compress_rope: Rope { theta: raw.compress_rope_theta, scaling: scaled.scaling },
        index_n_heads: raw.index_n_heads,
        index_head_dim: raw.index_head_dim,
        index_topk: raw.index_topk,
        moe: V4Moe {
            n_routed_experts: raw.n_routed_experts,
            n_shared_experts: raw.n_shared_experts,
            num_experts_per_tok: raw.num_experts_per_tok,
            moe_intermediate_size: raw.moe_intermediate_size,
            num_hash_layers: raw.num_hash_layers,
            norm_topk_prob: raw.norm_topk_prob,
            routed_scaling_factor: raw.routed_scaling_factor as f32,
            swiglu_limit: raw.swiglu_limit as f32,
        },
        hc_mult: raw.hc_mult,
        hc_sinkhorn_iters: raw.hc_sinkhorn_iters,
        hc_eps: raw.hc_eps as f32,
        num_nextn_predict_layers: raw.num_nextn_predict_layers,
        mtp_refusal,
    })
}

fn check(raw: &Raw) -> Result<(), String> {
    for (name, size, limit) in [
        ("num_attention_heads", raw.num_attention_heads, 1 << 12),
        ("head_dim", raw.head_dim, 1 << 12),
        ("qk_rope_head_dim", raw.qk_rope_head_dim, raw.head_dim),
        ("q_lora_rank", raw.q_lora_rank, 1 << 16),
        ("o_lora_rank", raw.o_lora_rank, 1 << 16),
        ("o_groups", raw.o_groups, raw.num_attention_heads),
        ("sliding_window", raw.sliding_window, 1 << 20),
        ("index_n_heads", raw.index_n_heads, 1 << 12),
        ("index_head_dim", raw.index_head_dim, 1 << 12),
        ("index_topk", raw.index_topk, 1 << 20),
        ("n_routed_experts", raw.n_routed_experts, 1 << 14),
        ("n_shared_experts", raw.n_shared_experts, 1 << 10),
        ("num_experts_per_tok", raw.num_experts_per_tok, raw.n_routed_experts),
        ("moe_intermediate_size", raw.moe_intermediate_size, 1 << 20),
        ("hc_mult", raw.hc_mult, 64),
        ("hc_sinkhorn_iters", raw.hc_sinkhorn_iters, 1000),
    ] {
        in_range(name, size, limit)?;
    }
    if !raw.qk_rope_head_dim.is_multiple_of(2) || raw.qk_rope_head_dim > raw.index_head_dim {
        return Err(format!("qk_rope_head_dim {} is odd or wider than an indexer head", raw.qk_rope_head_dim));
    }
    if !raw.num_attention_heads.is_multiple_of(raw.o_groups) {
        return Err(format!(
            "o_groups {} does not divide num_attention_heads {}",
            raw.o_groups, raw.num_attention_heads
        ));
    }
    if raw.compress_ratios.len() < raw.num_hidden_layers {
        return Err(format!(
            "compress_ratios has {} entries for {} layers",
            raw.compress_ratios.len(),
            raw.num_hidden_layers
        ));
    }
    if let Some(r) = raw.compress_ratios.iter().find(|r| ![0, 4, 128].contains(*r)) {
        return Err(format!("compress_ratios holds {r}; 0, 4 and 128 are supported"));
    }
    if raw.scoring_func != "sqrtsoftplus" {
        return Err(format!("scoring_func `{}` is not supported (sqrtsoftplus is)", raw.scoring_func));
    }
    Ok(())
}
