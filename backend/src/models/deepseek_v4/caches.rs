//! The caches of one layer: window rows, compressed rows and index keys with their pending states.

use sluicegate_kernels::ops::KvStore;
use sluicegate_kernels::rows::{Rounding, RowStore};
use sluicegate_kernels::sparse::Compress;

use crate::exec::PoolSpec;
use crate::layers::LoadError;
use crate::models::ModelOptions;
use crate::weights::config::{DeepseekV4 as Config, ModelConfig};

/// Compressors of this ratio overlap and have an indexer.
pub(super) const INDEXED: usize = 4;

/// A pool of rows, how they are kept, and how they are rounded before.
#[derive(Clone, Debug)]
pub(super) struct RowPool {
    pub(super) spec: PoolSpec,
    pub(super) store: RowStore,
    pub(super) rounding: Rounding,
}

/// A compressor's finished rows and its pending state.
#[derive(Clone, Debug)]
pub(super) struct CompressorPools {
    pub(super) rows: RowPool,
    pub(super) state: PoolSpec,
    /// States in a block.
    pub(super) slots: usize,
}

/// All of a layer's caches, in declaration order.
#[derive(Clone, Debug)]
pub(super) struct LayerPools {
    pub(super) window: RowPool,
    /// Rows in a block's ring; see [`sluicegate_kernels::sparse::WindowPool`].
    pub(super) ring: usize,
    pub(super) compressor: Option<CompressorPools>,
    pub(super) indexer: Option<CompressorPools>,
}

impl LayerPools {
    pub(super) fn new(c: &Config, layer: u32, options: ModelOptions) -> Self {
        let ratio = c.compress_ratios.get(layer as usize).copied().unwrap_or(0);
        let store = options.dtypes.rows(c.qk_rope_head_dim);
        let rounding = if options.simulate { Rounding::Fp8 { tail: c.qk_rope_head_dim } } else { Rounding::Exact };
        // Rows that rejected drafts overwrite are still in the window of what comes instead.
        let ring = (c.sliding_window + options.draft_tokens as usize).min(options.block_tokens as usize);
        let slots = options.draft_tokens as usize + 1;
        let row = store.row_bytes(c.head_dim);
        let spec =
            PoolSpec { name: "window", layer, tokens_per_row: options.block_tokens, row_bytes: (ring * row) as u32 };
        let pools = |names: [&'static str; 2], width: usize, store: RowStore, rounding: Rounding| {
            let pool =
                |name, tokens_per_row, bytes: usize| PoolSpec { name, layer, tokens_per_row, row_bytes: bytes as u32 };
            CompressorPools {
                rows: RowPool { spec: pool(names[0], ratio as u32, store.row_bytes(width)), store, rounding },
                state: pool(names[1], options.block_tokens, slots * Compress::state_bytes(width, ratio == INDEXED)),
                slots,
            }
        };
        let names = if ratio == INDEXED { ["csa", "csa_state"] } else { ["hca", "hca_state"] };
        let index = options.dtypes.index_rows();
        let key_rounding = match index {
            RowStore::Plain(_) if options.simulate => Rounding::HadamardFp4,
            RowStore::Plain(_) => Rounding::Exact,
            _ => Rounding::Hadamard,
        };
        Self {
            window: RowPool { spec, store, rounding },
            ring,
            compressor: (ratio > 0).then(|| pools(names, c.head_dim, store, rounding)),
            indexer: (ratio == INDEXED)
                .then(|| pools(["index_k", "index_state"], c.index_head_dim, index, key_rounding)),
        }
    }
}

/// What queries of the indexer go through, so that they meet its keys in the same basis.
pub(super) fn query_rounding(options: ModelOptions) -> Rounding {
    match options.dtypes.index_rows() {
        RowStore::Plain(_) if !options.simulate => Rounding::Exact,
        RowStore::Plain(_) | RowStore::Fp4 if options.simulate => Rounding::HadamardFp4,
        _ => Rounding::Hadamard,
    }
}

/// Refuses an indexer whose keys would have to be transformed and can't be.
pub(super) fn check(c: &Config, options: ModelOptions) -> Result<(), LoadError> {
    let indexed = c.compress_ratios.contains(&INDEXED);
    if !indexed || query_rounding(options) == Rounding::Exact || c.index_head_dim.is_power_of_two() {
        return Ok(());
    }
    Err(LoadError::Device(format!(
        "index_head_dim {} is no power of two, so its keys have no Hadamard transform; keep them in bf16 or f32 and switch \
         activation_simulation off",
        c.index_head_dim
    )))
}

/// The pools of a layer, in declaration order.
pub(in crate::models) fn pools(c: &Config, layer: u32, options: ModelOptions) -> Vec<PoolSpec> {
    let p = LayerPools::new(c, layer, options);
    let compressed = [p.compressor, p.indexer].into_iter().flatten();
    let rest = compressed.flat_map(|c| [c.rows.spec, c.state]);
    std::iter::once(p.window.spec).chain(rest).collect()
}

/// The streams behind the last layer after each of a block's last tokens, exactly, and how many those are: the drafting layer
/// reads the last one that is known to be right, and drafts overwrite those after it.
pub(super) fn streams_pool(config: &ModelConfig, c: &Config, options: ModelOptions) -> (PoolSpec, usize) {
    let ring = (options.draft_tokens + 1).min(options.block_tokens);
    let row = RowStore::Plain(KvStore::F32).row_bytes(c.hc_mult * config.hidden_size) as u32;
    let (layer, tokens_per_row) = (config.num_hidden_layers as u32, options.block_tokens);
    (PoolSpec { name: "mtp_streams", layer, tokens_per_row, row_bytes: ring * row }, ring as usize)
}

/// The pools of the drafting layer, in declaration order.
pub(in crate::models) fn drafting_pools(config: &ModelConfig, c: &Config, options: ModelOptions) -> Vec<PoolSpec> {
    let mut all = pools(c, config.num_hidden_layers as u32, options);
    all.push(streams_pool(config, c, options).0);
    all
}
