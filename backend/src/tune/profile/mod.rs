//! A profile: what a search found for one kind of card, as a TOML file.

mod read;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{Card, Found, Knob, Search, Trial, Tuning};
use crate::run::Knobs;
pub use read::{ProfileError, find, tuning};

const HEAD: &str = "# Written by `sluicegate tune`. No setting changes a result, only how long it takes. Keys that are left out have their \
                    defaults.\n\n";

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    device: Device,
    /// Where the figures come from.
    pub made: Made,
    #[serde(default)]
    knobs: Table,
    /// All comparisons, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Measured>,
}

/// The card. Spanned, so that an error can name the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    name: Spanned<String>,
    capability: Spanned<String>,
}

/// With what, when and on which work the figures were measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Made {
    /// Version of Sluicegate.
    pub sluicegate: String,
    /// Day, as ISO 8601 writes it.
    pub date: String,
    /// Newest CUDA version that the driver can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// The driver's own version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The checkpoint's architecture.
    pub architecture: String,
    /// Its layers.
    pub num_hidden_layers: usize,
    /// Its width.
    pub hidden_size: usize,
    /// Its vocabulary.
    pub vocab_size: usize,
    /// Number formats of its weights.
    pub weights: Vec<String>,
    /// Most tokens of a step.
    pub max_num_batched_tokens: u32,
    /// Average prompt tokens of a request.
    pub input_len: u32,
    /// Tokens that each request generated.
    pub output_len: u32,
    /// Pairs of runs in each comparison.
    pub pairs: usize,
}

/// [`Tuning`], key by key: of those knobs that were turned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    #[serde(skip_serializing_if = "Option::is_none")]
    attention_blocks: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attention_many_rows: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gemm_64_rows: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gemm_128_rows: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fine_buckets: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    long_prefill_token_threshold: Option<u32>,
}

impl Table {
    fn of(tuning: &Tuning, turned: &[Knob]) -> Self {
        let mut table = Self::default();
        for knob in turned {
            let value = knob.value(tuning);
            match knob {
                Knob::AttentionBlocks => table.attention_blocks = NonZeroU32::new(value),
                Knob::AttentionManyRows => table.attention_many_rows = NonZeroU32::new(value),
                Knob::Gemm64Rows => table.gemm_64_rows = NonZeroU32::new(value),
                Knob::Gemm128Rows => table.gemm_128_rows = NonZeroU32::new(value),
                Knob::FineBuckets => table.fine_buckets = Some(value != 0),
                Knob::LongPrefillTokenThreshold => table.long_prefill_token_threshold = Some(value),
            }
        }
        table
    }

    fn tuning(&self) -> Tuning {
        let usual = Tuning::default();
        let value = |set: Option<NonZeroU32>, usual| set.map_or(usual, NonZeroU32::get);
        let knobs = Knobs {
            attention_blocks: value(self.attention_blocks, usual.knobs.attention_blocks),
            attention_many_rows: value(self.attention_many_rows, usual.knobs.attention_many_rows),
            gemm_64_rows: value(self.gemm_64_rows, usual.knobs.gemm_64_rows),
            gemm_128_rows: value(self.gemm_128_rows, usual.knobs.gemm_128_rows),
            fine_buckets: self.fine_buckets.unwrap_or(usual.knobs.fine_buckets),
        };
        let threshold = self.long_prefill_token_threshold.unwrap_or(usual.long_prefill_token_threshold);
        Tuning { knobs, long_prefill_token_threshold: threshold }
    }
}

/// A comparison: a run of all requests under the best value so far, and under another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The knob; `all` is everything that was chosen, against the defaults.
    pub knob: String,
    /// Its best value so far.
    pub from: u32,
    /// The other value.
    pub to: u32,
    /// Requests at a time.
    pub concurrency: u32,
    /// Median milliseconds of a run under the best value so far.
    pub from_ms: f64,
    /// Under the other.
    pub to_ms: f64,
    /// Median ratio of a pair, the other value to the best so far.
    pub ratio: f64,
    /// The ratio's interval.
    pub interval: [f64; 2],
}

impl From<&Trial> for Measured {
    fn from(trial: &Trial) -> Self {
        let round = |x: f64| (x * 1e4).round() / 1e4;
        let times = &trial.times;
        Self {
            knob: trial.knob.map_or("all", Knob::name).into(),
            from: trial.from,
            to: trial.to,
            concurrency: trial.concurrency,
            from_ms: round(times.baseline * 1e3),
            to_ms: round(times.candidate * 1e3),
            ratio: round(times.ratio),
            interval: [round(times.low), round(times.high)],
        }
    }
}

impl Profile {
    /// What a search found on a card.
    #[must_use]
    pub fn new(card: &Card, made: Made, search: &Search, found: &Found) -> Self {
        let spanned = |text: &str| Spanned::new(0..0, text.to_owned());
        Self {
            device: Device { name: spanned(&card.name), capability: spanned(&card.capability) },
            made: Made {
                input_len: search.workload.input_len,
                output_len: search.workload.output_len,
                pairs: search.pairs,
                ..made
            },
            knobs: Table::of(&found.best, &search.knobs),
            measured: found.trials.iter().map(Measured::from).collect(),
        }
    }

    /// The settings.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        self.knobs.tuning()
    }

    /// The card that it is for.
    #[must_use]
    pub fn card(&self) -> Card {
        Card { name: self.device.name.as_ref().clone(), capability: self.device.capability.as_ref().clone() }
    }

    /// Writes the card's file into a folder, which is made if need be; an older one is replaced as a whole.
    ///
    /// # Errors
    /// The folder or the file can't be written.
    pub fn save(&self, folder: &Path) -> std::io::Result<PathBuf> {
        let text = toml::to_string(self).map_err(std::io::Error::other)?;
        std::fs::create_dir_all(folder)?;
        let path = folder.join(self.card().file_name());
        let new = path.with_extension("new");
        std::fs::write(&new, format!("{HEAD}{text}"))?;
        std::fs::rename(&new, &path)?;
        Ok(path)
    }
}
