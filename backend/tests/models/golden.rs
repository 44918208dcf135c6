//! Reads golden sets.

use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde::Deserialize;

/// A prompt of a set and what the oracle says of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Prompt {
    pub(crate) name: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) positions: Vec<usize>,
    pub(crate) greedy: Vec<u32>,
}

#[derive(Deserialize)]
struct Set {
    prompts: Vec<Prompt>,
}

/// `goldens/NAME.json` and `goldens/NAME.safetensors`.
pub(crate) struct Golden {
    pub(crate) prompts: Vec<Prompt>,
    tensors: Vec<u8>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A model folder.
pub(crate) fn model(name: &str) -> PathBuf {
    folder().join("models").join(name)
}

/// The golden Llama with Llama 3's rope scaling.
pub(crate) fn llama3_rope() -> tempfile::TempDir {
    let (from, to) = (model("llama"), tempfile::tempdir().expect("a folder"));
    for (file, name) in [("config_llama3rope.json", "config.json"), ("model.safetensors", "model.safetensors")] {
        std::fs::copy(from.join(file), to.path().join(name)).expect("a golden");
    }
    to
}

impl Golden {
    pub(crate) fn read(name: &str) -> Self {
        let file = |ext: &str| std::fs::read(folder().join("goldens").join(format!("{name}.{ext}"))).expect("a golden");
        let set: Set = serde_json::from_slice(&file("json")).expect("a golden's description");
        Self { prompts: set.prompts, tensors: file("safetensors") }
    }

    /// Rows of a tensor that not every prompt has.
    pub(crate) fn rows_or_none(&self, name: &str) -> Option<Vec<Vec<f32>>> {
        let all = SafeTensors::deserialize(&self.tensors).expect("a golden");
        all.tensor(name).is_ok_and(|t| t.shape()[0] > 0).then(|| self.rows(name))
    }

    /// Rows of a two-dimensional tensor.
    pub(crate) fn rows(&self, name: &str) -> Vec<Vec<f32>> {
        rows(&self.tensors, name)
    }
}

/// Rows of a two-dimensional tensor of a file.
pub(crate) fn rows(file: &[u8], name: &str) -> Vec<Vec<f32>> {
    let all = SafeTensors::deserialize(file).expect("a golden");
    let t = all.tensor(name).expect("a tensor of the golden");
    let values: Vec<f32> = t.data().as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
    values.chunks_exact(*t.shape().last().expect("a shape")).map(<[f32]>::to_vec).collect()
}

impl Golden {
    /// Rows of a two-dimensional tensor of 32-bit integers.
    pub(crate) fn integers(&self, name: &str) -> Vec<Vec<i32>> {
        let all = SafeTensors::deserialize(&self.tensors).expect("a golden");
        let t = all.tensor(name).expect("a tensor of the golden");
        let values: Vec<i32> = t.data().as_chunks::<4>().0.iter().map(|&b| i32::from_le_bytes(b)).collect();
        values.chunks_exact(*t.shape().last().expect("a shape")).map(<[i32]>::to_vec).collect()
    }
}

/// Largest absolute difference.
pub(crate) fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0f32, |m, (x, y)| m.max((x - y).abs()))
}

/// The largest logit's id.
pub(crate) fn argmax(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().fold((0, f32::MIN), |m, (i, &v)| if v > m.1 { (i, v) } else { m });
    best.0 as u32
}
