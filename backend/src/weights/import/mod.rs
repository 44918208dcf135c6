//! Turns a Hugging Face folder or a GGUF file into a model folder: config, tokenizer, and safetensors in BF16 or NVFP4.
//!
//! Weights stream through a buffer of a few megabytes. `config.json` is written last, so a folder that has one is complete;
//! an interrupted import keeps its finished shards and goes on after them.

mod folder;
mod gguf_config;
mod gguf_source;
mod gguf_tokenizer;
mod plan;
mod quantize;
mod source;
mod stored;

use std::path::Path;

use serde_json::{Value, json};

use super::error::WeightsError;
use plan::Plan;
use source::Source;

/// Number format of the linear layers in the new folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everything in BF16.
    Bf16,
    /// Linear layers in NVFP4 by ModelOpt's round-to-nearest recipe; embeddings, norms, routers and head in BF16.
    Nvfp4,
}

/// How an import writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number format.
    pub target: Target,
    /// Largest file before another one is begun; also what an interrupted import may have to do again.
    pub max_shard_bytes: usize,
}

impl From<Target> for Options {
    fn from(target: Target) -> Self {
        Self { target, max_shard_bytes: 4 << 30 }
    }
}

/// What an import wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Weights in the model.
    pub parameters: u64,
    /// Of these, weights in NVFP4.
    pub quantized: u64,
    /// Bytes of safetensors.
    pub bytes: u64,
}

/// How far an import is: parameters done, and parameters in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Converts `source` (a folder or a .gguf file) into the folder `dest`.
///
/// # Errors
/// When the source is malformed or of a kind that is not supported, `dest` already holds a model, or the disk fails.
pub fn import(
    source: &Path,
    dest: &Path,
    options: impl Into<Options>,
    progress: Progress<'_>,
) -> Result<Imported, WeightsError> {
    let Options { target, max_shard_bytes } = options.into();
    let source: Box<dyn Source> = if source.is_dir() {
        Box::new(folder::Folder::open(source, target)?)
    } else {
        Box::new(gguf_source::GgufSource::open(source)?)
    };
    if dest.join("config.json").exists() {
        return Err(WeightsError::config(
            dest,
            "already holds a model (config.json); remove it or name another folder",
        ));
    }
    std::fs::create_dir_all(dest).map_err(WeightsError::io(dest))?;
    let plan = Plan::new(source.as_ref(), target, max_shard_bytes);
    let imported = quantize::write_weights(source.as_ref(), &plan, dest, progress)?;
    for (name, bytes) in source.companions()? {
        let path = dest.join(name);
        std::fs::write(&path, bytes).map_err(WeightsError::io(&path))?;
    }
    write_config(source.as_ref(), &plan, dest)?;
    Ok(imported)
}

/// Writes hf_quant_config.json, where weights were quantized, and last config.json.
fn write_config(source: &dyn Source, plan: &Plan, dest: &Path) -> Result<(), WeightsError> {
    let mut config = source.config().clone();
    if plan.quantizes() {
        let ignore = plan.unquantized_layers(source);
        let producer = json!({"name": "sluicegate", "version": env!("CARGO_PKG_VERSION")});
        let mixed = plan.keeps_fp8(source);
        let algorithm = if mixed { "MIXED_PRECISION" } else { "NVFP4" };
        match config.get_mut("quantization_config").and_then(Value::as_object_mut).filter(|_| mixed) {
            // What is said of the FP8 layers stays true.
            Some(said) => {
                let added = json!({
                    "moe_quant_algo": "NVFP4", "quant_algo": algorithm, "group_size": 16, "producer": producer,
                    "ignore": ignore,
                });
                said.extend(added.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
            }
            None => config["quantization_config"] = quantization_config(&ignore, &producer),
        }
        let nested = json!({
            "producer": producer,
            "quantization": {
                "quant_algo": algorithm, "kv_cache_quant_algo": null, "group_size": 16, "exclude_modules": ignore,
            },
        });
        write_json(&dest.join("hf_quant_config.json"), &nested)?;
    }
    write_json(&dest.join("config.json"), &config)
}

/// ModelOpt's flat form.
fn quantization_config(ignore: &[String], producer: &Value) -> Value {
    let four_bits = json!({"dynamic": false, "num_bits": 4, "type": "float", "group_size": 16});
    json!({
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "producer": producer,
        "ignore": ignore,
        "config_groups": {
            "group_0": {"input_activations": four_bits, "weights": four_bits, "targets": ["Linear"]},
        },
    })
}

fn write_json(path: &Path, value: &Value) -> Result<(), WeightsError> {
    std::fs::write(path, pretty(value)).map_err(WeightsError::io(path))
}

/// Indented JSON with a newline at its end.
fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
