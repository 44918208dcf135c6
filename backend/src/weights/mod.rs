//! Checkpoints on disk: memory-mapped safetensors, their config, and the weights in them whatever number format they are in.
//!
//! A model is loaded in three steps: [`Checkpoint::open`] maps the files and reads the config; the architecture asks
//! for every tensor it needs inside [`Checkpoint::load`]; all that is missing, superfluous, misshapen or of a wrong
//! dtype comes back as one list.
//!
//! ```no_run
//! use sluicegate_backend::weights::Checkpoint;
//! let checkpoint = Checkpoint::open("models/SmolLM2-135M-Instruct".as_ref())?;
//! let (q, norm) = checkpoint.load(|load| {
//!     (load.linear("model.layers.0.self_attn.q_proj", 576, 576), load.vector("model.norm.weight", 576))
//! })?;
//! # Ok::<(), sluicegate_backend::weights::WeightsError>(())
//! ```

pub mod config;
pub mod gguf;
pub mod import;

mod checkpoint;
mod decode;
mod detect;
mod dtype;
mod error;
mod header;
mod linear;
mod loader;
mod shard;
mod tensor;
mod write;

pub use checkpoint::Checkpoint;
pub(crate) use checkpoint::survey;
pub use config::ModelConfig;
pub use dtype::Dtype;
pub use error::{Problem, Problems, WeightsError};
pub use header::{HeaderEntry, read_header};
pub use linear::Linear;
pub use loader::{Asked, Loader};
pub use tensor::Tensor;
