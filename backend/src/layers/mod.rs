//! Building blocks that architectures share: each takes its tensors from a checkpoint, builds itself on a device, and
//! calls the device's operations.

pub mod attention;
pub mod decoder;
pub mod embedding;
pub mod matrix;
pub mod mlp;
pub mod moe;
pub mod rope;

use sluicegate_kernels::ops::{Build, Pool, State};
use sluicegate_kernels::tensor::BuildError;

use crate::exec::{CacheSpec, PoolSpec, StateSpec};
use crate::weights::WeightsError;

/// Why a model can't be made ready to run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The checkpoint is wrong.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A weight is well-formed, but this device can't take it.
    #[error("`{weight}`: {source}")]
    Build {
        /// Name in the checkpoint.
        weight: String,
        /// Why.
        source: BuildError,
    },
    /// The device can't be used.
    #[error("{0}")]
    Device(String),
}

/// Adds the weight's name to a device's refusal.
pub(crate) fn named(weight: &str) -> impl FnOnce(BuildError) -> LoadError + '_ {
    move |source| LoadError::Build { weight: weight.into(), source }
}

/// The caches that a model declares, with the device's handles in the same order.
#[derive(Debug, Default)]
pub struct Caches {
    /// What KV memory, prefix cache and transfer know.
    pub spec: CacheSpec,
    /// One for each of `spec.pools`.
    pub pools: Vec<Pool>,
    /// One for each of `spec.states`.
    pub states: Vec<State>,
}

impl Caches {
    /// None yet, in blocks of so many tokens, in rows of these number formats.
    #[must_use]
    pub fn new(block_tokens: u32, formats: String) -> Self {
        Self { spec: CacheSpec { block_tokens, formats, ..CacheSpec::default() }, ..Self::default() }
    }

    /// Declares and allocates a pool.
    ///
    /// # Errors
    /// If the device has no memory for it.
    pub fn pool<D: Build>(&mut self, device: &mut D, spec: PoolSpec) -> Result<Pool, LoadError> {
        let name = format!("layer {} cache {}", spec.layer, spec.name);
        let pool = device.pool(spec.row_bytes as usize, spec.tokens_per_row as usize).map_err(named(&name))?;
        self.spec.pools.push(spec);
        self.pools.push(pool);
        Ok(pool)
    }

    /// Declares and allocates a per-sequence state.
    ///
    /// # Errors
    /// If the device has no memory for it.
    pub fn state<D: Build>(&mut self, device: &mut D, spec: StateSpec) -> Result<State, LoadError> {
        let name = format!("layer {} state {}", spec.layer, spec.name);
        let state = device.state(spec.bytes as usize).map_err(named(&name))?;
        self.spec.states.push(spec);
        self.states.push(state);
        Ok(state)
    }
}
