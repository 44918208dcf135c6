//! What a model folder is, and what serving it takes, without loading its weights.

use std::collections::BTreeMap;
use std::path::Path;

use sluicegate_kernels::batch::Limits;
use sluicegate_kernels::blueprint::Blueprint;

use crate::exec::CacheSpec;
use crate::layers::LoadError;
use crate::models::{CacheDtypes, Model, ModelOptions};
use crate::weights::{Checkpoint, Dtype, ModelConfig, Tensor};

/// Weights in one number format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Numbers; scales don't count.
    pub parameters: u64,
    /// Bytes on disk, scales included.
    pub bytes: u64,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Hyper-parameters.
    pub config: ModelConfig,
    /// By number format: "nvfp4", "fp8", "bf16".
    pub formats: BTreeMap<String, Share>,
    /// What is kept per block of tokens and per sequence.
    pub cache: CacheSpec,
    /// Bytes of weights on a device that keeps the checkpoint's formats.
    pub weights: usize,
    /// Bytes of activations for [`Inspection::rows`] rows a step.
    pub activations: usize,
    /// Rows a step that activations were counted for.
    pub rows: usize,
    /// The drafting layer, if the checkpoint has one. Its numbers are among those of `formats`, and nothing else here counts it.
    pub drafter: Option<Drafter>,
}

/// A drafting layer: what it adds to the model when it is asked for.
#[derive(Clone, Debug)]
pub struct Drafter {
    /// Its weights in the checkpoint.
    pub share: Share,
    /// What a device takes, or why it can't be run.
    pub cost: Result<DrafterCost, String>,
}

/// What a drafting layer takes that drafts one token at a time.
#[derive(Clone, Copy, Debug)]
pub struct DrafterCost {
    /// Bytes of weights on a device that keeps the checkpoint's formats.
    pub weights: usize,
    /// KV bytes of one context token, averaged over a block.
    pub kv_bytes_per_token: f64,
}

impl Inspection {
    /// KV bytes of one context token, averaged over a block.
    #[must_use]
    pub fn kv_bytes_per_token(&self) -> f64 {
        self.cache.block_bytes() as f64 / f64::from(self.cache.block_tokens)
    }

    /// Context tokens that fit beside weights and activations in this many bytes of device memory.
    #[must_use]
    pub fn tokens_in(&self, memory: u64) -> u64 {
        let left = memory.saturating_sub((self.weights + self.activations) as u64);
        left / self.cache.block_bytes().max(1) as u64 * u64::from(self.cache.block_tokens)
    }

    /// All weights.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.formats.values().map(|s| s.parameters).sum()
    }
}

/// Opens a model folder, checks every tensor, and counts.
///
/// # Errors
/// All that is wrong with the folder.
pub fn inspect(dir: &Path, dtypes: CacheDtypes, rows: usize) -> Result<Inspection, LoadError> {
    let checkpoint = Checkpoint::open(dir)?;
    let config = checkpoint.config().clone();
    let options = ModelOptions { dtypes, simulate: false, draft_tokens: 0, mtp: false, block_tokens: 0 }.sized(&config);
    let (device, cache) = count(&checkpoint, options, rows)?;
    Ok(Inspection {
        formats: formats(&checkpoint, |_| true),
        weights: device.weights,
        activations: device.activations,
        rows,
        drafter: drafter(&checkpoint, options, rows, &device, &cache),
        cache,
        config,
    })
}

/// Builds the model where nothing is kept.
fn count(checkpoint: &Checkpoint, options: ModelOptions, rows: usize) -> Result<(Blueprint, CacheSpec), LoadError> {
    let limits = Limits {
        rows,
        samples: rows.min(64),
        table_entries: 0,
        block_tokens: options.block_tokens as usize,
        blocks: 0,
        slots: 0,
    };
    let mut device = Blueprint::new(limits);
    let (_, caches) = Model::build(checkpoint, options, &mut device)?;
    Ok((device, caches.spec))
}

fn drafter(
    checkpoint: &Checkpoint,
    options: ModelOptions,
    rows: usize,
    plain: &Blueprint,
    cache: &CacheSpec,
) -> Option<Drafter> {
    let mut share = Share::default();
    for part in formats(checkpoint, |name| name.starts_with("mtp.")).values() {
        share.parameters += part.parameters;
        share.bytes += part.bytes;
    }
    let with = |(device, caches): (Blueprint, CacheSpec)| DrafterCost {
        weights: device.weights - plain.weights,
        kv_bytes_per_token: (caches.block_bytes() - cache.block_bytes()) as f64 / f64::from(cache.block_tokens),
    };
    let options = ModelOptions { draft_tokens: 1, mtp: true, ..options };
    let cost = || count(checkpoint, options, rows).map(with).map_err(|e| e.to_string());
    (share.bytes > 0).then(|| Drafter { share, cost: cost() })
}

/// Adds up tensors; a scale belongs to its weight's format.
fn formats(checkpoint: &Checkpoint, of: impl Fn(&str) -> bool) -> BTreeMap<String, Share> {
    let mut formats: BTreeMap<String, Share> = BTreeMap::new();
    for t in checkpoint.tensors().filter(|t| of(t.name())) {
        let (format, parameters) = classify(checkpoint, t);
        let share = formats.entry(format).or_default();
        share.parameters += parameters as u64;
        share.bytes += t.bytes().len() as u64;
    }
    formats
}

fn classify(checkpoint: &Checkpoint, t: &Tensor) -> (String, usize) {
    let Some((module, part)) = t.name().rsplit_once('.') else {
        return (t.dtype().name().to_lowercase(), t.elements());
    };
    let is = |names: &[&str]| names.iter().any(|n| checkpoint.tensor(&format!("{module}.{n}")).is_some());
    let weight = ["weight", "weight_packed"].iter().find_map(|n| checkpoint.tensor(&format!("{module}.{n}")));
    let packed = |t: &Tensor| matches!(t.dtype(), Dtype::U8 | Dtype::I8 | Dtype::F4);
    let format = match weight {
        Some(w) if packed(w) && is(&["weight_scale_2", "weight_global_scale"]) => "nvfp4".to_owned(),
        Some(w) if packed(w) => "mxfp4".to_owned(),
        Some(w) if *w.dtype() == Dtype::F8E4m3 => "fp8".to_owned(),
        _ => t.dtype().name().to_lowercase(),
    };
    let parameters = match (part, t.dtype()) {
        ("weight" | "weight_packed", Dtype::U8 | Dtype::I8) => t.elements() * 2,
        // Factors of hyper-connections are no scales of a number format.
        (p, _) if p.contains("scale") && !p.starts_with("hc_") => 0,
        _ => t.elements(),
    };
    (format, parameters)
}
