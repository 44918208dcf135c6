//! What serving a model takes on given devices, from its config alone: memory, context, the floor of a step, how to spread it.
//!
//! Everything is computed from data sheets and shapes, nothing is measured: a real step is slower than its floor, and which
//! layout has the lower floor is a hint, not a promise.

mod device;
mod step;
mod text;
mod weights;

pub use device::{DEVICES, Device, device};
pub use step::{Floor, Layout};
pub use weights::{Part, WeightFormat, Weights};

use crate::layers::LoadError;
use crate::models::{CacheDtypes, ModelOptions, cache_spec};
use crate::weights::ModelConfig;
use step::Placed;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Kind of device.
    pub device: Device,
    /// How many.
    pub devices: usize,
    /// Weights.
    pub format: WeightFormat,
    /// Caches.
    pub dtypes: CacheDtypes,
    /// Tokens in a KV block, before the model's own rule; 0 is what suits the model.
    pub block_tokens: u32,
    /// Most tokens of a speculative draft. Floors are those of steps without drafts.
    pub draft_tokens: u32,
    /// Whether the model's own drafting layer drafts.
    pub mtp: bool,
    /// Part of a device's memory for weights and caches; the rest is for activations and buffers.
    pub memory_utilization: f64,
    /// Tokens of a prefill step.
    pub chunk: usize,
    /// Requests.
    pub workload: Workload,
}

/// A kind of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Tokens of context in the middle of an answer.
    pub context: usize,
    /// Prompt tokens that are not in the prefix cache.
    pub prompt: usize,
    /// Tokens of an answer.
    pub output: usize,
    /// Longest time between two tokens, in seconds.
    pub inter_token: f64,
}

/// One way to spread the model.
#[derive(Clone, Debug)]
pub struct Spread {
    /// Which.
    pub layout: Layout,
    /// Bytes of weights on each device.
    pub weights: f64,
    /// Tokens of context that fit all devices together; negative room is none.
    pub tokens: f64,
    /// Decode steps of so many sequences, all devices together.
    pub decode: Vec<(f64, Floor)>,
    /// A prefill step of [`Question::chunk`] tokens.
    pub prefill: Floor,
    /// The largest step within the workload's limits.
    pub best: Option<Best>,
}

/// Decoding at the workload's limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Sequences at a time, all devices together.
    pub sequences: f64,
    /// Device seconds of a request's prompt.
    pub prefill: f64,
    /// Device seconds of a request's answer.
    pub decode: f64,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The model.
    pub config: ModelConfig,
    /// What was asked.
    pub question: Question,
    /// Weights.
    pub weights: Weights,
    /// Tokens in a KV block.
    pub block_tokens: u32,
    /// Cache bytes of a token, averaged over a block.
    pub bytes_per_token: f64,
    /// Cache bytes of a sequence of the workload's context, in whole blocks.
    pub bytes_per_sequence: f64,
    /// Fewest devices that hold weights and one such sequence.
    pub fewest: usize,
    /// Ways to spread it.
    pub options: Vec<Spread>,
}

/// Sequences of the decode steps that are shown.
const BATCHES: [f64; 5] = [1.0, 8.0, 64.0, 256.0, 1024.0];

/// Answers a question.
///
/// # Errors
/// A cache format that the architecture doesn't have.
pub fn plan(config: &ModelConfig, question: Question) -> Result<Plan, LoadError> {
    let Question { dtypes, draft_tokens, mtp, block_tokens, .. } = question;
    let options = ModelOptions { dtypes, simulate: false, draft_tokens, mtp, block_tokens }.sized(config);
    let tokens = options.block_tokens;
    let block_bytes = cache_spec(config, options)?.block_bytes() as f64;
    let weights = Weights::of(config, question.format, mtp);
    let bytes_per_sequence = (question.workload.context as f64 / f64::from(tokens)).ceil() * block_bytes;
    let placed = |layout, devices: usize| Placed {
        config,
        weights: &weights,
        format: question.format,
        dtypes: question.dtypes,
        device: question.device,
        devices: devices as f64,
        layout,
    };
    let usable = question.device.memory * question.memory_utilization;
    let fits = |n: &usize| {
        placed(Layout::Expert, *n).weights_on_each() + bytes_per_sequence <= usable
            || placed(Layout::Tensor, *n).weights_on_each() + bytes_per_sequence <= usable
    };
    let fewest = (1..=4096).find(fits).unwrap_or(0);
    let option = |layout| {
        let p = placed(layout, question.devices);
        let room = (usable - p.weights_on_each()).max(0.0);
        let copies = if layout == Layout::Expert { p.devices } else { p.cache_parts() };
        let tokens = (room / block_bytes).floor() * f64::from(tokens) * copies;
        let context = question.workload.context as f64;
        Spread {
            layout,
            weights: p.weights_on_each(),
            tokens,
            decode: BATCHES.iter().map(|&b| (b, p.floor(b, b, b, context))).collect(),
            prefill: prefill(&p, &question),
            best: best(&p, &question, room * copies / bytes_per_sequence),
        }
    };
    let options = [Layout::Expert, Layout::Tensor].map(option).to_vec();
    let bytes_per_token = block_bytes / f64::from(tokens);
    let config = config.clone();
    Ok(Plan { config, question, weights, block_tokens: tokens, bytes_per_token, bytes_per_sequence, fewest, options })
}

/// A chunk's rows share what they read of one sequence's caches; its last row is sampled.
fn prefill(p: &Placed<'_>, q: &Question) -> Floor {
    p.floor(q.chunk as f64, 1.0, 1.0, q.workload.context as f64)
}

/// Decoding with as many sequences as fit, and as the time between tokens allows.
fn best(p: &Placed<'_>, q: &Question, fit: f64) -> Option<Best> {
    let context = q.workload.context as f64;
    let step = |b: f64| p.floor(b, b, b, context).seconds();
    let (mut low, mut high) = (0u32, fit.floor().min(65_536.0) as u32);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if step(f64::from(middle)) <= q.workload.inter_token { low = middle } else { high = middle - 1 }
    }
    let sequences = f64::from(low);
    let a_token = prefill(p, q).seconds() * p.devices / q.chunk as f64;
    (low > 0).then(|| Best {
        sequences,
        prefill: a_token * q.workload.prompt as f64,
        decode: q.workload.output as f64 * step(sequences) * p.devices / sequences,
    })
}
