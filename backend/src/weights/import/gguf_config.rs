//! config.json and generation_config.json out of a GGUF file's metadata.

use serde_json::{Value, json};

use super::super::WeightsError;
use super::super::gguf::{Gguf, GgufValue};

/// config.json of a Llama.
pub(super) fn config(gguf: &Gguf) -> Result<Value, WeightsError> {
    let refuse = |what: String| WeightsError::unsupported(gguf.path(), what);
    let architecture = gguf.text("general.architecture").unwrap_or("(none)");
    if architecture != "llama" {
        return Err(refuse(format!("GGUF architecture `{architecture}` is not supported: llama is")));
    }
    if gguf.tensors().iter().any(|t| t.name == "rope_freqs.weight") {
        return Err(refuse(
            "rope_freqs.weight (Llama 3 rope scaling) in a GGUF file is not supported; import the Hugging Face folder"
                .into(),
        ));
    }
    if let Some(scaling) = gguf.text("llama.rope.scaling.type").filter(|s| *s != "none") {
        return Err(refuse(format!(
            "rope scaling `{scaling}` in a GGUF file is not supported; import the Hugging Face folder"
        )));
    }
    let need =
        |key: &str| gguf.integer(key).filter(|v| *v > 0).ok_or_else(|| refuse(format!("metadata `{key}` is missing")));
    let heads = need("llama.attention.head_count")?;
    let hidden = need("llama.embedding_length")?;
    let eps = gguf.float("llama.attention.layer_norm_rms_epsilon");
    let eps = eps.ok_or_else(|| refuse("metadata `llama.attention.layer_norm_rms_epsilon` is missing".into()))?;
    let embedding = gguf.tensors().iter().find(|t| t.name == "token_embd.weight");
    let vocab = embedding
        .and_then(|t| t.shape.first())
        .ok_or_else(|| refuse("tensor `token_embd.weight` is missing".into()))?;
    Ok(json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": false,
        "attention_dropout": 0.0,
        "bos_token_id": token_id(gguf, "bos"),
        "eos_token_id": token_id(gguf, "eos"),
        "pad_token_id": token_id(gguf, "padding"),
        "head_dim": gguf.integer("llama.attention.key_length").unwrap_or(hidden / heads),
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": need("llama.feed_forward_length")?,
        "max_position_embeddings": need("llama.context_length")?,
        "mlp_bias": false,
        "num_attention_heads": heads,
        "num_hidden_layers": need("llama.block_count")?,
        "num_key_value_heads": gguf.integer("llama.attention.head_count_kv").unwrap_or(heads),
        "rms_norm_eps": shortest(eps),
        "rope_scaling": null,
        "rope_theta": shortest(gguf.float("llama.rope.freq_base").unwrap_or(10_000.0)),
        "tie_word_embeddings": !gguf.tensors().iter().any(|t| t.name == "output.weight"),
        "torch_dtype": "bfloat16",
        "use_cache": true,
        "vocab_size": vocab,
    }))
}

/// generation_config.json.
pub(super) fn generation_config(gguf: &Gguf) -> Value {
    json!({
        "_from_model_config": true,
        "bos_token_id": token_id(gguf, "bos"),
        "eos_token_id": token_id(gguf, "eos"),
        "pad_token_id": token_id(gguf, "padding"),
    })
}

/// Id of a special token by llama.cpp's name for its role.
pub(super) fn token_id(gguf: &Gguf, role: &str) -> Option<u64> {
    gguf.integer(&format!("tokenizer.ggml.{role}_token_id"))
}

/// Text of a special token.
pub(super) fn token_text<'a>(gguf: &'a Gguf, role: &str) -> Option<&'a str> {
    let id = usize::try_from(token_id(gguf, role)?).ok()?;
    match gguf.list("tokenizer.ggml.tokens")?.get(id)? {
        GgufValue::Text(text) => Some(text),
        _ => None,
    }
}

/// The f64 that prints as the shortest decimal of the stored f32: 1e-5, not 9.999999747378752e-6.
fn shortest(v: f32) -> f64 {
    v.to_string().parse().unwrap_or_else(|_| v.into())
}
