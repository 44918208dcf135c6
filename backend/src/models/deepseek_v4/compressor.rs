//! A compressor: tokens become rows that each stand for several tokens.

use sluicegate_kernels::ops::{Act, Linear, Operand, Ops, Rope};
use sluicegate_kernels::sparse::Compress;

use super::caches::{CompressorPools, INDEXED};
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

impl CompressorWeights {
    pub(super) fn load(load: &mut Loader<'_>, prefix: String, hidden: usize, ratio: usize, width: usize) -> Self {
        let wide = if ratio == INDEXED { 2 * width } else { width };
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
    pub(super) eps: f32,
    pub(super) rope: Rope,
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
        pools: &CompressorPools,
    ) -> Result<Self, LoadError> {
        let overlap = w.ratio == INDEXED;
        let refused = || named(&w.prefix);
        let mut stack = |l: &weights::Linear| {
            let m = matrix::linear(l).map_err(refused())?;
            device.stack(&[&m]).map_err(refused())
        };
        let (values, scores) = (stack(&w.values)?, stack(&w.scores)?);
        let rows = setup.caches.pool(device, pools.rows.spec.clone())?;
        let state = setup.caches.pool(device, pools.state.clone())?;
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
            slots: pools.slots,
            rounding: pools.rows.rounding,
            pool: rows,
            store: pools.rows.store,
        };
        Ok(Self { values, scores, compress })
    }

    /// The linears that read the normed input.
    pub(super) fn inputs(&self) -> [Linear; 2] {
        [self.values, self.scores]
    }

    /// What finishes its rows.
    pub(super) fn compress(&self) -> &Compress {
        &self.compress
    }

    pub(super) fn forward<D: Ops>(&self, device: &mut D, normed: Operand) {
        device.linear(normed, self.values, self.compress.values);
        device.linear(normed, self.scores, self.compress.scores);
        device.compress(&self.compress);
    }
}
