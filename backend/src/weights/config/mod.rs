//! `config.json` as a typed description of a model.

mod deepseek;
mod dense;
mod quantization;
mod rope;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::WeightsError;

pub use deepseek::{DeepseekV4, V4Moe};
pub use dense::{Attention, Moe, Transformer};
pub use quantization::Quantization;
pub use rope::{Rope, RopeScaling};

const SUPPORTED: &str = "LlamaForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, DeepseekV4ForCausalLM";

/// Hyper-parameters of a model, checked for consistency.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// As `architectures` names it.
    pub architecture: String,
    /// Rows of the embedding and number of logits.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Decoder layers, without drafting (MTP) layers.
    pub num_hidden_layers: usize,
    /// Added to the mean square in every RMS norm.
    pub rms_norm_eps: f32,
    /// Longest sequence the model was made for.
    pub max_position_embeddings: usize,
    /// The output head is the embedding.
    pub tie_word_embeddings: bool,
    /// Beginning-of-sequence id.
    pub bos_id: Option<u32>,
    /// End-of-sequence ids; a generation config overrides them.
    pub eos_ids: Vec<u32>,
    /// What differs between families.
    pub family: Family,
}

/// The architectures that can be run, with their own parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Family {
    /// Llama 2 and 3, SmolLM2, Mistral-like: GQA, SwiGLU.
    Llama(Transformer),
    /// Llama with RMS norms on the heads' queries and keys.
    Qwen3(Transformer),
    /// Qwen3 with a mixture of experts in every layer.
    Qwen3Moe(Transformer, Moe),
    /// DeepSeek V4: hyper-connections, compressed attention, mixture of experts.
    DeepseekV4(Box<DeepseekV4>),
}

/// A token id or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Ids {
    One(u32),
    Many(Vec<u32>),
}

impl Ids {
    fn into_vec(self) -> Vec<u32> {
        match self {
            Self::One(id) => vec![id],
            Self::Many(ids) => ids,
        }
    }
}

#[derive(Deserialize)]
struct Common {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    rms_norm_eps: f64,
    max_position_embeddings: usize,
    #[serde(default)]
    tie_word_embeddings: bool,
    bos_token_id: Option<u32>,
    eos_token_id: Option<Ids>,
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
}

impl ModelConfig {
    /// Reads `config.json` of a model folder.
    ///
    /// # Errors
    /// When it is missing, incomplete, inconsistent, or names an architecture that is not supported.
    pub fn read(dir: &Path) -> Result<Self, WeightsError> {
        let path = dir.join("config.json");
        let text = std::fs::read(&path).map_err(WeightsError::io(&path))?;
        Self::parse(&path, &text)
    }

    /// Parses the text of a `config.json`; `path` is for messages.
    ///
    /// # Errors
    /// As [`ModelConfig::read`].
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, WeightsError> {
        let wrong = |what: String| WeightsError::config(path, what);
        let json: Value = serde_json::from_slice(text).map_err(|e| wrong(e.to_string()))?;
        let architecture = architecture_of(&json).ok_or_else(|| wrong("names no architecture".into()))?;
        let family = match architecture.as_str() {
            "LlamaForCausalLM" => dense::transformer(&json, true).map(Family::Llama),
            "Qwen3ForCausalLM" => dense::transformer(&json, true).map(Family::Qwen3),
            "Qwen3MoeForCausalLM" => {
                dense::transformer(&json, false).and_then(|t| Ok(Family::Qwen3Moe(t, dense::moe(&json)?)))
            }
            "DeepseekV4ForCausalLM" => deepseek::v4(&json).map(|v| Family::DeepseekV4(Box::new(v))),
            _ => {
                let path = path.to_owned();
                return Err(WeightsError::UnknownArchitecture { path, architecture, supported: SUPPORTED });
            }
        };
        let common: Common = section(&json).map_err(wrong)?;
        Self::assemble(architecture, common, family.map_err(wrong)?).map_err(wrong)
    }

    fn assemble(architecture: String, c: Common, family: Family) -> Result<Self, String> {
        for (name, size, limit) in [
            ("vocab_size", c.vocab_size, 1 << 24),
            ("hidden_size", c.hidden_size, 1 << 20),
            ("num_hidden_layers", c.num_hidden_layers, 1 << 12),
            ("max_position_embeddings", c.max_position_embeddings, 1 << 30),
        ] {
            in_range(name, size, limit)?;
        }
        if c.hidden_act.as_deref().is_some_and(|a| a != "silu") {
            return Err(format!("hidden_act `{}` is not supported (silu is)", c.hidden_act.unwrap_or_default()));
        }
        if c.attention_bias || c.mlp_bias {
            return Err("biases (attention_bias, mlp_bias) are not supported".into());
        }
        if !(c.rms_norm_eps.is_finite() && c.rms_norm_eps >= 0.0) {
            return Err(format!("rms_norm_eps {} is not a small positive number", c.rms_norm_eps));
        }
        Ok(Self {
            architecture,
            vocab_size: c.vocab_size,
            hidden_size: c.hidden_size,
            num_hidden_layers: c.num_hidden_layers,
            rms_norm_eps: c.rms_norm_eps as f32,
            max_position_embeddings: c.max_position_embeddings,
            tie_word_embeddings: c.tie_word_embeddings,
            bos_id: c.bos_token_id,
            eos_ids: c.eos_token_id.map_or_else(Vec::new, Ids::into_vec),
            family,
        })
    }
}

fn architecture_of(json: &Value) -> Option<String> {
    let listed = json.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str);
    let by_type = || match json.get("model_type").and_then(Value::as_str)? {
        "llama" => Some("LlamaForCausalLM"),
        "qwen3" => Some("Qwen3ForCausalLM"),
        "qwen3_moe" => Some("Qwen3MoeForCausalLM"),
        "deepseek_v4" => Some("DeepseekV4ForCausalLM"),
        other => Some(other),
    };
    listed.or_else(by_type).map(str::to_owned)
}

/// Reads the keys that `T` wants out of the config.
fn section<T: DeserializeOwned>(json: &Value) -> Result<T, String> {
    T::deserialize(json).map_err(|e| e.to_string())
}

fn in_range(name: &str, size: usize, limit: usize) -> Result<(), String> {
    if (1..=limit).contains(&size) { Ok(()) } else { Err(format!("{name} is {size}, expected 1 to {limit}")) }
}

/// `eos_token_id` of `generation_config.json`, if the folder has that file and the file has that key.
pub(crate) fn read_generation_eos(dir: &Path) -> Result<Option<Vec<u32>>, WeightsError> {
    #[derive(Deserialize)]
    struct Generation {
        eos_token_id: Option<Ids>,
    }
    let path: PathBuf = dir.join("generation_config.json");
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read(&path).map_err(WeightsError::io(&path))?;
    let g: Generation = serde_json::from_slice(&text).map_err(|e| WeightsError::config(&path, e.to_string()))?;
    Ok(g.eos_token_id.map(Ids::into_vec))
}
