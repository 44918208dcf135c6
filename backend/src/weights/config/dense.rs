//! Parameters of the Llama and Qwen3 families.

use serde::Deserialize;
use serde_json::Value;

use super::rope::{Rope, RopeScaling, rope};
use super::{in_range, section};

/// Grouped-query attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; divides the query heads.
    pub num_key_value_heads: usize,
    /// Elements of a head, even.
    pub head_dim: usize,
    /// Positions.
    pub rope: Rope,
}

/// A stack of attention and SwiGLU layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transformer {
    /// Attention.
    pub attention: Attention,
    /// Width of the dense feed-forward; 0 where experts take its place.
    pub intermediate_size: usize,
}

/// A mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moe {
    /// Experts in a layer.
    pub num_experts: usize,
    /// Experts that a token uses.
    pub num_experts_per_tok: usize,
    /// Width of an expert.
    pub moe_intermediate_size: usize,
    /// Weights of the chosen experts are scaled to sum to 1.
    pub norm_topk_prob: bool,
}

#[derive(Deserialize)]
struct RawTransformer {
    hidden_size: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: Option<usize>,
    #[serde(default)]
    use_sliding_window: bool,
    #[serde(default)]
    partial_rotary_factor: Option<f64>,
}

pub(super) fn transformer(json: &Value, dense: bool) -> Result<Transformer, String> {
    let raw: RawTransformer = section(json)?;
    in_range("num_attention_heads", raw.num_attention_heads, 1 << 12)?;
    let kv = raw.num_key_value_heads.unwrap_or(raw.num_attention_heads);
    if kv == 0 || !raw.num_attention_heads.is_multiple_of(kv) {
        return Err(format!(
            "num_key_value_heads {kv} does not divide num_attention_heads {}",
            raw.num_attention_heads
        ));
    }
    let head_dim = raw.head_dim.unwrap_or(raw.hidden_size / raw.num_attention_heads);
    in_range("head_dim", head_dim, 1 << 12)?;
    if !head_dim.is_multiple_of(2) {
        return Err(format!("head_dim {head_dim} is odd: rotary embedding pairs elements"));
    }
    if raw.use_sliding_window {
        return Err("use_sliding_window is not supported for this architecture".into());
    }
    if raw.partial_rotary_factor.is_some_and(|f| f != 1.0) {
        return Err("partial_rotary_factor is not supported".into());
    }
    let intermediate_size = if dense { raw.intermediate_size.ok_or("missing field `intermediate_size`")? } else { 0 };
    if dense {
        in_range("intermediate_size", intermediate_size, 1 << 20)?;
    }
    let rope = rope(json)?;
    if matches!(rope.scaling, RopeScaling::Yarn { .. }) {
        // YaRN also scales attention here, which no tested checkpoint of these families exercises.
        return Err("rope scaling `yarn` is not supported for this architecture".into());
    }
    let attention = Attention { num_attention_heads: raw.num_attention_heads, num_key_value_heads: kv, head_dim, rope };
    Ok(Transformer { attention, intermediate_size })
}

#[derive(Deserialize)]
struct RawMoe {
    #[serde(alias = "num_local_experts")]
    num_experts: usize,
    num_experts_per_tok: usize,
    moe_intermediate_size: usize,
    #[serde(default)]
    norm_topk_prob: bool,
    decoder_sparse_step: Option<usize>,
    #[serde(default)]
    mlp_only_layers: Vec<usize>,
}

pub(super) fn moe(json: &Value) -> Result<Moe, String> {
    let raw: RawMoe = section(json)?;
    in_range("num_experts", raw.num_experts, 1 << 14)?;
    in_range("num_experts_per_tok", raw.num_experts_per_tok, raw.num_experts)?;
    in_range("moe_intermediate_size", raw.moe_intermediate_size, 1 << 20)?;
    if raw.decoder_sparse_step.unwrap_or(1) != 1 || !raw.mlp_only_layers.is_empty() {
        return Err("layers without experts (decoder_sparse_step, mlp_only_layers) are not supported".into());
    }
    Ok(Moe {
        num_experts: raw.num_experts,
        num_experts_per_tok: raw.num_experts_per_tok,
        moe_intermediate_size: raw.moe_intermediate_size,
        norm_topk_prob: raw.norm_topk_prob,
    })
}
