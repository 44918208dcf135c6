//! A GGUF file of the Llama architecture as the source of an import.

use std::path::Path;

use serde_json::Value;

use super::super::gguf::Gguf;
use super::super::{Dtype, Tensor, WeightsError};
use super::gguf_config::{config, generation_config};
use super::gguf_tokenizer::{special_tokens_map, tokenizer, tokenizer_config};
use super::pretty;
use super::source::{Companion, Source, SourceTensor};

pub(super) struct GgufSource {
    gguf: Gguf,
    config: Value,
    tensors: Vec<SourceTensor>,
    /// Head width of tensors whose rows llama.cpp has permuted.
    permuted: Vec<Option<usize>>,
}

impl GgufSource {
    pub(super) fn open(path: &Path) -> Result<Self, WeightsError> {
        let gguf = Gguf::open(path)?;
        let config = config(&gguf)?;
        let head_dim = config["head_dim"].as_u64().unwrap_or(0) as usize;
        let mut tensors = Vec::new();
        let mut permuted = Vec::new();
        for t in gguf.tensors() {
            let name = hugging_face_name(&t.name)
                .ok_or_else(|| WeightsError::unsupported(path, format!("tensor `{}` is not understood", t.name)))?;
            let turned = name.ends_with(".q_proj.weight") || name.ends_with(".k_proj.weight");
            if turned && (t.shape.len() != 2 || !t.shape[0].is_multiple_of(head_dim)) {
                let what = format!("tensor `{}` of shape {:?} does not hold heads of {head_dim} rows", t.name, t.shape);
                return Err(WeightsError::unsupported(path, what));
            }
            let cols = t.shape.last().copied().unwrap_or(1).max(1);
            tensors.push(SourceTensor { name, shape: t.shape.clone(), kept: Dtype::Bf16, cols });
            permuted.push(turned.then_some(head_dim));
        }
        Ok(Self { gguf, config, tensors, permuted })
    }
}

/// llama.cpp interleaves the two rotary halves of every head of q and k: its row `2j + half` is ours `half * d/2 + j`.
fn stored_row(row: usize, head_dim: usize) -> usize {
    let (head, i) = (row / head_dim, row % head_dim);
    let (half, j) = (i / (head_dim / 2), i % (head_dim / 2));
    head * head_dim + 2 * j + half
}

fn hugging_face_name(name: &str) -> Option<String> {
    match name {
        "token_embd.weight" => return Some("model.embed_tokens.weight".into()),
        "output_norm.weight" => return Some("model.norm.weight".into()),
        "output.weight" => return Some("lm_head.weight".into()),
        _ => {}
    }
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    layer.parse::<u32>().ok()?;
    let module = match part.strip_suffix(".weight")? {
        "attn_norm" => "input_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    Some(format!("model.layers.{layer}.{module}.weight"))
}

impl Source for GgufSource {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, index: usize, first_row: usize, out: &mut [f32]) {
        let (tensor, cols) = (&self.gguf.tensors()[index], self.tensors[index].cols);
        match self.permuted[index] {
            None => self.gguf.read(tensor, first_row * cols, out),
            Some(head_dim) => {
                for (i, row) in out.chunks_exact_mut(cols).enumerate() {
                    self.gguf.read(tensor, stored_row(first_row + i, head_dim) * cols, row);
                }
            }
        }
    }

    fn verbatim(&self, _: usize) -> Option<&Tensor> {
        None
    }

    fn config(&self) -> &Value {
        &self.config
    }

    fn companions(&self) -> Result<Vec<Companion>, WeightsError> {
        Ok(vec![
            ("tokenizer.json".into(), pretty(&tokenizer(&self.gguf)?)),
            ("tokenizer_config.json".into(), pretty(&tokenizer_config(&self.gguf)?)),
            ("special_tokens_map.json".into(), pretty(&special_tokens_map(&self.gguf)?)),
            ("generation_config.json".into(), pretty(&generation_config(&self.gguf))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpermuting_is_a_bijection_that_parts_the_halves() {
        let rows: Vec<usize> = (0..16).map(|r| stored_row(r, 8)).collect();
        assert_eq!(rows[..8], [0, 2, 4, 6, 1, 3, 5, 7]);
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..16));
    }
}
