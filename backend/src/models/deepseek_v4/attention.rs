//! Attention of one layer: a window of rows, compressed rows, and at ratio 4 an indexer that selects some of those.

use sluicegate_kernels::moe::Picks;
use sluicegate_kernels::ops::{Act, Linear, Operand, Ops, Rope, Vector};
use sluicegate_kernels::rows::Rounding;
use sluicegate_kernels::sparse::{Compressed, FinishRows, RotateTails, Select, SparseAttention, WindowPool};

use super::caches::{CompressorPools, INDEXED, LayerPools, query_rounding};
use super::compressor::{Compressor, CompressorSetup, CompressorWeights};
use crate::layers::{Caches, LoadError, matrix, named};
use crate::models::ModelOptions;
use crate::weights::config::{DeepseekV4 as Config, ModelConfig};
use crate::weights::{self, Loader};

#[derive(Debug)]
struct IndexerWeights {
    queries: weights::Linear,
    heads: weights::Linear,
    compressor: CompressorWeights,
}

/// Tensors of one layer, as the checkpoint has them.
#[derive(Debug)]
pub(super) struct AttentionWeights {
    prefix: String,
    ratio: usize,
    /// `wq_a`, `wq_b`, `wkv`, `wo_a`, `wo_b`.
    projections: [weights::Linear; 5],
    q_norm: Vec<f32>,
    kv_norm: Vec<f32>,
    sinks: Vec<f32>,
    compressor: Option<CompressorWeights>,
    indexer: Option<IndexerWeights>,
}

impl AttentionWeights {
    pub(super) fn load(load: &mut Loader<'_>, prefix: String, hidden: usize, c: &Config, ratio: usize) -> Self {
        let (all, rank) = (c.num_attention_heads * c.head_dim, c.o_groups * c.o_lora_rank);
        let mut take = |name: &str, rows, cols| load.linear(&format!("{prefix}.{name}"), rows, cols);
        let projections = [
            take("wq_a", c.q_lora_rank, hidden),
            take("wq_b", all, c.q_lora_rank),
            take("wkv", c.head_dim, hidden),
            take("wo_a", rank, all / c.o_groups),
            take("wo_b", hidden, rank),
        ];
        let compressor = format!("{prefix}.compressor");
        let indexer = |load: &mut Loader<'_>| IndexerWeights {
            queries: load.linear(&format!("{prefix}.indexer.wq_b"), c.index_n_heads * c.index_head_dim, c.q_lora_rank),
            heads: load.linear(&format!("{prefix}.indexer.weights_proj"), c.index_n_heads, hidden),
            compressor: CompressorWeights::load(
                load,
                format!("{prefix}.indexer.compressor"),
                hidden,
                ratio,
                c.index_head_dim,
            ),
        };
        Self {
            ratio,
            projections,
            q_norm: load.vector(&format!("{prefix}.q_norm.weight"), c.q_lora_rank),
            kv_norm: load.vector(&format!("{prefix}.kv_norm.weight"), c.head_dim),
            sinks: load.vector(&format!("{prefix}.attn_sink"), c.num_attention_heads),
            compressor: (ratio > 0).then(|| CompressorWeights::load(load, compressor, hidden, ratio, c.head_dim)),
            indexer: (ratio == INDEXED).then(|| indexer(load)),
            prefix,
        }
    }
}

/// Buffers that all layers share.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionBuffers {
    /// `q_lora_rank`.
    pub(super) low: Act,
    /// All query heads.
    pub(super) q: Act,
    /// A key-value row.
    pub(super) row: Act,
    /// Results of all heads.
    pub(super) heads: Act,
    /// Results of all groups.
    pub(super) groups: Act,
    /// Two of twice the wider compressed row.
    pub(super) compress: [Act; 2],
    /// Indexer queries and head weights.
    pub(super) index: [Act; 2],
    pub(super) picks: Picks,
}

/// Operands of a layer's linears, shared by all layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionOperands {
    pub(super) normed: Operand,
    pub(super) low: Operand,
    pub(super) group: Operand,
    pub(super) groups: Operand,
}

/// What a layer is built with.
pub(super) struct AttentionSetup<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) v4: &'a Config,
    pub(super) caches: &'a mut Caches,
    pub(super) options: ModelOptions,
    /// Of layers without and with a compressor.
    pub(super) ropes: [Rope; 2],
    pub(super) buffers: AttentionBuffers,
}

#[derive(Debug)]
struct Indexer {
    queries: Linear,
    heads: Linear,
    rotate: RotateTails,
    compressor: Compressor,
    select: Select,
}

/// Attention of one layer on a device.
#[derive(Debug)]
pub(super) struct Attention {
    q_a: Linear,
    q_norm: Vector,
    eps: f32,
    q_b: Linear,
    kv: Linear,
    o_a: Vec<Linear>,
    o_b: Linear,
    rotate: RotateTails,
    finish: FinishRows,
    compressor: Option<Compressor>,
    indexer: Option<Indexer>,
    attend: SparseAttention,
    buffers: AttentionBuffers,
}

impl Attention {
    pub(super) fn build<D: Ops>(
        w: &AttentionWeights,
        device: &mut D,
        layer: u32,
        setup: &mut AttentionSetup<'_>,
    ) -> Result<Self, LoadError> {
        let (c, b, eps) = (setup.v4, setup.buffers, setup.config.rms_norm_eps);
        let pools = LayerPools::new(c, layer, setup.options);
        let rope = setup.ropes[usize::from(w.ratio > 0)];
        let refused = || named(&w.prefix);
        let pool = setup.caches.pool(device, pools.window.spec.clone())?;
        let earlier = WindowPool { pool, ring: pools.ring, store: pools.window.store };
        let queries = query_rounding(setup.options);
        let mut compressing = CompressorSetup { caches: setup.caches, eps, rope, scratch: b.compress };
        let compressor = w.compressor.as_ref().zip(pools.compressor.as_ref());
        let compressor = compressor.map(|(w, p)| Compressor::build(w, device, &mut compressing, p)).transpose()?;
        let indexer = w.indexer.as_ref().zip(pools.indexer.as_ref());
        let build = |(i, p)| Indexer::build((i, p), w, device, &mut compressing, (c, b, queries));
        let indexer = indexer.map(build).transpose()?;
        let picks = indexer.as_ref().map(|_| b.picks);
        let compressed = compressor.as_ref().map(Compressor::compress);
        let compressed = compressed.map(|k| Compressed { pool: k.pool, ratio: w.ratio, store: k.store, picks });
        let heads = c.num_attention_heads;
        let attend = SparseAttention {
            q: b.q,
            heads,
            scale: (c.head_dim as f32).powf(-0.5),
            window: c.sliding_window,
            first: 0,
            rows: b.row,
            earlier,
            compressed,
            sinks: device.vector(&w.sinks),
            rope,
            out: b.heads,
        };
        let groups = w.projections[3].split_rows(c.o_groups);
        let o_a = groups.iter().map(|m| device.stack(&[m]).map_err(refused())).collect::<Result<_, _>>()?;
        let mut stack = |l: &weights::Linear| {
            let m = matrix::linear(l).map_err(refused())?;
            device.stack(&[&m]).map_err(refused())
        };
        let [q_a, q_b, kv, _, o_b] = &w.projections;
        let (q_a, q_b, kv, o_b) = (stack(q_a)?, stack(q_b)?, stack(kv)?, stack(o_b)?);
        Ok(Self {
            q_a,
            q_norm: device.vector(&w.q_norm),
            eps,
            q_b,
            kv,
            o_a,
            o_b,
            rotate: RotateTails { heads: b.q, count: heads, norm_eps: Some(eps), rope, rounding: Rounding::Exact },
            finish: FinishRows {
                rows: b.row,
                gain: device.vector(&w.kv_norm),
                eps,
                rope,
                rounding: pools.window.rounding,
                store: pools.window.store,
            },
            compressor,
            indexer,
            attend,
            buffers: b,
        })
    }

    /// Tokens before this position have no rows.
    pub(super) fn starting_at(mut self, first: usize) -> Self {
        self.attend.first = first;
        self
    }

    /// The linears that read the normed input, the low-rank query, a group's heads, all groups.
    pub(super) fn readers(&self) -> [Vec<Linear>; 4] {
        let mut normed = vec![self.q_a, self.kv];
        normed.extend(self.compressor.iter().flat_map(Compressor::inputs));
        normed.extend(self.indexer.iter().flat_map(|i| i.compressor.inputs()));
        normed.extend(self.indexer.iter().map(|i| i.heads));
        let mut low = vec![self.q_b];
        low.extend(self.indexer.iter().map(|i| i.queries));
        [normed, low, self.o_a.clone(), vec![self.o_b]]
    }

    /// Keeps the tokens' rows, which is all that later ones see where nothing is compressed.
    pub(super) fn keep<D: Ops>(&self, device: &mut D, normed: Operand) {
        device.linear(normed, self.kv, self.buffers.row);
        device.finish_rows(&self.finish);
        device.keep_rows(self.buffers.row, &self.attend.earlier);
    }

    /// `out = attention(normed)`.
    pub(super) fn forward<D: Ops>(&self, device: &mut D, x: AttentionOperands, out: Act) {
        let b = &self.buffers;
        device.linear(x.normed, self.q_a, b.low);
        device.rms_norm(b.low, self.q_norm, self.eps, x.low);
        device.linear(x.low, self.q_b, b.q);
        device.rotate_tails(&self.rotate);
        device.linear(x.normed, self.kv, b.row);
        device.finish_rows(&self.finish);
        if let Some(compressor) = &self.compressor {
            compressor.forward(device, x.normed);
        }
        if let Some(indexer) = &self.indexer {
            indexer.forward(device, x);
        }
        device.sparse_attention(&self.attend);
        device.keep_rows(b.row, &self.attend.earlier);
        let (wide, rank) = (b.heads.width() / self.o_a.len(), b.groups.width() / self.o_a.len());
        for (g, o_a) in self.o_a.iter().enumerate() {
            device.convert(b.heads.columns(g * wide, wide), x.group);
            device.linear(x.group, *o_a, b.groups.columns(g * rank, rank));
        }
        device.convert(b.groups, x.groups);
        device.linear(x.groups, self.o_b, out);
    }
}

impl Indexer {
    fn build<D: Ops>(
        (w, pools): (&IndexerWeights, &CompressorPools),
        layer: &AttentionWeights,
        device: &mut D,
        setup: &mut CompressorSetup<'_>,
        (c, b, rounding): (&Config, AttentionBuffers, Rounding),
    ) -> Result<Self, LoadError> {
        let compressor = Compressor::build(&w.compressor, device, setup, pools)?;
        let (heads, rope) = (c.index_n_heads, setup.rope);
        let select = Select {
            q: b.index[0],
            weights: b.index[1],
            factor: ((c.index_head_dim * heads) as f32).powf(-0.5),
            pool: compressor.compress().pool,
            ratio: layer.ratio,
            store: pools.rows.store,
            out: b.picks,
        };
        let mut stack = |l: &weights::Linear| {
            let m = matrix::linear(l).map_err(named(&layer.prefix))?;
            device.stack(&[&m]).map_err(named(&layer.prefix))
        };
        Ok(Self {
            queries: stack(&w.queries)?,
            heads: stack(&w.heads)?,
            rotate: RotateTails { heads: b.index[0], count: heads, norm_eps: None, rope, rounding },
            compressor,
            select,
        })
    }

    fn forward<D: Ops>(&self, device: &mut D, x: AttentionOperands) {
        device.linear(x.low, self.queries, self.select.q);
        device.rotate_tails(&self.rotate);
        device.linear(x.normed, self.heads, self.select.weights);
        self.compressor.forward(device, x.normed);
        device.select(&self.select);
    }
}
