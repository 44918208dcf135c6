//! A Hugging Face folder as the source of an import.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::{Checkpoint, Tensor, WeightsError};
use super::source::{Companion, Packed, Source, SourceTensor};
use super::stored::{Stored, stored};
use super::{Target, pretty};

/// Copied as they are where they exist.
const COMPANIONS: [&str; 5] =
    ["tokenizer.json", "special_tokens_map.json", "generation_config.json", "added_tokens.json", "LICENSE"];

pub(super) struct Folder {
    dir: PathBuf,
    config: Value,
    stored: Vec<Stored>,
    tensors: Vec<SourceTensor>,
}

impl Folder {
    pub(super) fn open(dir: &Path, target: Target) -> Result<Self, WeightsError> {
        let stored = stored(&Checkpoint::open(dir)?, target)?;
        let tensors = stored.iter().map(Stored::describe).collect();
        Ok(Self { dir: dir.to_owned(), config: read_json(&dir.join("config.json"))?, stored, tensors })
    }
}

impl Source for Folder {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, index: usize, first_row: usize, out: &mut [f32]) {
        self.stored[index].read(first_row * self.tensors[index].cols, out);
    }

    fn verbatim(&self, index: usize) -> Option<&Tensor> {
        self.stored[index].verbatim()
    }

    fn mxfp4(&self, index: usize) -> Option<Packed<'_>> {
        self.stored[index].packed()
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
