//! Writes a small model folder tensor by tensor.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use serde_json::{Value, json};

/// Name, dtype as safetensors spells it, shape, bytes.
pub(crate) type Stored = (String, &'static str, Vec<usize>, Vec<u8>);

/// A tensor.
pub(crate) fn stored(name: &str, dtype: &'static str, shape: &[usize], bytes: impl Into<Vec<u8>>) -> Stored {
    (name.to_owned(), dtype, shape.to_vec(), bytes.into())
}

/// Writes `config.json` and `model.safetensors`.
pub(crate) fn write(dir: &Path, config: &Value, tensors: &[Stored]) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        data.extend_from_slice(bytes);
    }
    let header = Value::Object(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    std::fs::write(dir.join("model.safetensors"), file).unwrap();
}

/// The config of a Llama of this size.
pub(crate) fn llama(hidden: usize, inner: usize) -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 512, "hidden_size": hidden,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": inner,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 256, "rope_theta": 10000.0, "eos_token_id": 1,
    })
}
