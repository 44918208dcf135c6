//! A Hugging Face folder as the source of an import.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::{Checkpoint, Dtype, Tensor, WeightsError};
use super::pretty;
use super::source::{Companion, Source, SourceTensor};

/// Copied as they are where they exist.
const COMPANIONS: [&str; 5] =
    ["tokenizer.json", "special_tokens_map.json", "generation_config.json", "added_tokens.json", "LICENSE"];

pub(super) struct Folder {
    dir: PathBuf,
    config: Value,
    stored: Vec<Tensor>,
    tensors: Vec<SourceTensor>,
}

impl Folder {
    pub(super) fn open(dir: &Path) -> Result<Self, WeightsError> {
        let checkpoint = Checkpoint::open(dir)?;
        let stored: Vec<Tensor> = checkpoint.tensors().cloned().collect();
        let tensors = stored.iter().map(describe).collect();
        Ok(Self { dir: dir.to_owned(), config: read_json(&dir.join("config.json"))?, stored, tensors })
    }
}

fn describe(t: &Tensor) -> SourceTensor {
    let weight = t.name().ends_with(".weight") && matches!(t.dtype(), Dtype::F16 | Dtype::F32);
    SourceTensor {
        name: t.name().into(),
        shape: t.shape().to_vec(),
        kept: if weight { Dtype::Bf16 } else { t.dtype().clone() },
        cols: t.shape().last().copied().unwrap_or(1).max(1),
    }
}

impl Source for Folder {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, index: usize, first_row: usize, out: &mut [f32]) {
        let decoded = self.stored[index].read_f32(first_row * self.tensors[index].cols, out);
        debug_assert!(decoded, "tensors of other dtypes go over verbatim");
    }

    /// Integers, packed codes and scales are copied: a layer that is quantized already stays as it is.
    fn verbatim(&self, index: usize) -> Option<&Tensor> {
        let t = &self.stored[index];
        let float = matches!(t.dtype(), Dtype::Bf16 | Dtype::F16 | Dtype::F32) && t.name().ends_with(".weight");
        (!float).then_some(t)
    }

    fn config(&self) -> &Value {
        &self.config
    }

    fn companions(&self) -> Result<Vec<Companion>, WeightsError> {
        let mut files = Vec::new();
        for name in COMPANIONS {
            let path = self.dir.join(name);
            if path.is_file() {
                files.push((name.to_owned(), std::fs::read(&path).map_err(WeightsError::io(&path))?));
            }
        }
        let path = self.dir.join("tokenizer_config.json");
        if path.is_file() {
            let mut config = read_json(&path)?;
            let template = self.dir.join("chat_template.jinja");
            if template.is_file() {
                // Newer folders keep the template in a file of its own, which takes precedence.
                let text = std::fs::read_to_string(&template).map_err(WeightsError::io(&template))?;
                config["chat_template"] = text.into();
            }
            files.push(("tokenizer_config.json".into(), pretty(&config)));
        }
        Ok(files)
    }
}

fn read_json(path: &Path) -> Result<Value, WeightsError> {
    let text = std::fs::read(path).map_err(WeightsError::io(path))?;
    serde_json::from_slice(&text).map_err(|e| WeightsError::config(path, e.to_string()))
}
