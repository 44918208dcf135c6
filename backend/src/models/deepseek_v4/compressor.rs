//! A compressor: tokens become rows that each stand for several tokens.

use sluicegate_kernels::ops::{Act, KvStore, Linear, Operand, Ops, Pool, Rope};
use sluicegate_kernels::sparse::Compress;

use crate::exec::PoolSpec;
use crate::layers::{Caches, LoadError, matrix, named};
use crate::weights::{self, Dtype, Loader};

/// Tensors of one compressor, as the checkpoint has them.
#[derive(Debug)]
pub(super) struct CompressorWeights {
    prefix: String,
    ratio: usize,
    width: usize,
    values: weights::Linear,
    scores: weights::Linear,
    place: Vec<f32>,
    norm: Vec<f32>,
}

/// Compressors of ratio 4 overlap.
const OVERLAPPING: usize = 4;

impl CompressorWeights {
    pub(super) fn load(load: &mut Loader<'_>, prefix: String, hidden: usize, ratio: usize, width: usize) -> Self {
        let wide = if ratio == OVERLAPPING { 2 * width } else { width };
        let place = load.tensor(&format!("{prefix}.ape"), &[ratio, wide], &[Dtype::F32, Dtype::Bf16]);
        Self {
            ratio,
            width,
            values: load.linear(&format!("{prefix}.wkv"), wide, hidden),
            scores: load.linear(&format!("{prefix}.wgate"), wide, hidden),
            place: place.to_f32().unwrap_or_default(),
            norm: load.vector(&format!("{prefix}.norm.weight"), width),
            prefix,
        }
    }
}

/// What a compressor is built with.
pub(super) struct CompressorSetup<'a> {
    pub(super) caches: &'a mut Caches,
    pub(super) layer: u32,
    pub(super) eps: f32,
    pub(super) rope: Rope,
    pub(super) store: KvStore,
    /// Names of the rows' and the state's pool.
    pub(super) names: [&'static str; 2],
    /// Where the projections go: at least `2 * width` wide each.
    pub(super) scratch: [Act; 2],
}

/// A compressor on a device.
#[derive(Debug)]
pub(super) struct Compressor {
    values: Linear,
    scores: Linear,
    compress: Compress,
}

impl Compressor {
    pub(super) fn build<D: Ops>(
        w: &CompressorWeights,
        device: &mut D,
        setup: &mut CompressorSetup<'_>,
    ) -> Result<Self, LoadError> {
        let (overlap, tokens) = (w.ratio == OVERLAPPING, setup.caches.spec.block_tokens);
        let refused = || named(&w.prefix);
        let mut stack = |l: &weights::Linear| {
            let m = matrix::linear(l).map_err(refused())?;
            device.stack(&[&m]).map_err(refused())
        };
        let (values, scores) = (stack(&w.values)?, stack(&w.scores)?);
        let mut pool = |name, tokens_per_row, row_bytes: usize| {
            let spec = PoolSpec { name, layer: setup.layer, tokens_per_row, row_bytes: row_bytes as u32 };
            setup.caches.pool(device, spec)
        };
        let rows = pool(setup.names[0], w.ratio as u32, w.width * setup.store.size())?;
        let state = pool(setup.names[1], tokens, Compress::state_bytes(w.width, overlap))?;
        let wide = if overlap { 2 * w.width } else { w.width };
        let compress = Compress {
            values: setup.scratch[0].columns(0, wide),
            scores: setup.scratch[1].columns(0, wide),
            place: device.vector(&w.place),
            ratio: w.ratio,
            overlap,
            gain: device.vector(&w.norm),
            eps: setup.eps,
            rope: setup.rope,
            state,
            pool: rows,
            store: setup.store,
        };
        Ok(Self { values, scores, compress })
    }

    /// The linears that read the normed input.
    pub(super) fn inputs(&self) -> [Linear; 2] {
        [self.values, self.scores]
    }

    /// Finished rows.
    pub(super) fn pool(&self) -> Pool {
        self.compress.pool
    }

    pub(super) fn forward<D: Ops>(&self, device: &mut D, normed: Operand) {
        device.linear(normed, self.values, self.compress.values);
        device.linear(normed, self.scores, self.compress.scores);
        device.compress(&self.compress);
    }
}
