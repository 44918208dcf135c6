//! Grouped-query attention with rotary positions.

use sluicegate_kernels::ops::{
    Act, Attention as Attend, Build, HeadNorm, KvShape, KvStore, Linear, Operand, Ops, Rope, RopeAppend, RopePairs,
    Rows,
};

use super::{Caches, LoadError, matrix, named, rope};
use crate::models::kv_pool;
use crate::weights::config::Attention as Config;
use crate::weights::{self, Loader};

/// Tensors of one layer, as the checkpoint has them.
#[derive(Debug)]
pub struct AttentionWeights {
    prefix: String,
    config: Config,
    /// q, k, v, o.
    projections: [weights::Linear; 4],
    /// RMS-norm gains of a head's queries and keys, and epsilon.
    head_norms: Option<(Vec<f32>, Vec<f32>, f32)>,
}

impl AttentionWeights {
    /// Takes `PREFIX.{q,k,v,o}_proj`.
    pub fn load(load: &mut Loader<'_>, prefix: String, hidden: usize, config: &Config) -> Self {
        let q = config.num_attention_heads * config.head_dim;
        let kv = config.num_key_value_heads * config.head_dim;
        let mut take = |name: &str, rows, cols| load.linear(&format!("{prefix}.{name}_proj"), rows, cols);
        let projections = [take("q", q, hidden), take("k", kv, hidden), take("v", kv, hidden), take("o", hidden, q)];
        Self { prefix, config: *config, projections, head_norms: None }
    }

    /// Takes `PREFIX.{q,k}_norm.weight` too.
    #[must_use]
    pub fn with_head_norms(mut self, load: &mut Loader<'_>, eps: f32) -> Self {
        let mut take = |name: &str| load.vector(&format!("{}.{name}_norm.weight", self.prefix), self.config.head_dim);
        self.head_norms = Some((take("q"), take("k"), eps));
        self
    }
}

/// What the layers of a model share while they are built.
#[derive(Debug)]
pub struct AttentionSetup<'a> {
    /// Collects the layers' caches.
    pub caches: &'a mut Caches,
    /// Number format of keys and values.
    pub store: KvStore,
    /// Frequencies.
    pub rope: Rope,
    /// Where projections go, `[q heads | k heads | v heads]`.
    pub qkv: Act,
}

/// Attention of one layer on a device.
#[derive(Debug)]
pub struct Attention {
    qkv: Linear,
    o: Linear,
    append: RopeAppend,
    attend: Attend,
}

impl Attention {
    /// Builds a layer.
    ///
    /// # Errors
    /// If the device refuses a weight or has no memory for the cache.
    pub fn build<D: Build>(
        w: &AttentionWeights,
        device: &mut D,
        layer: u32,
        setup: &mut AttentionSetup<'_>,
    ) -> Result<Self, LoadError> {
        let c = &w.config;
        let refused = || named(&w.prefix);
        let [q, k, v, o] = &w.projections;
        let (q, k) = (matrix::linear(q).map_err(refused())?, matrix::linear(k).map_err(refused())?);
        let (v, o) = (matrix::linear(v).map_err(refused())?, matrix::linear(o).map_err(refused())?);
        let kv = KvShape { heads: c.num_key_value_heads, head_dim: c.head_dim, store: setup.store };
        let pool = setup.caches.pool(device, kv_pool(layer, kv))?;
        let q_heads = c.num_attention_heads;
        let mut gains =
            |(q, k, eps): &(Vec<f32>, Vec<f32>, f32)| HeadNorm { q: device.vector(q), k: device.vector(k), eps: *eps };
        let norm = w.head_norms.as_ref().map(&mut gains);
        let (rope, pairs) = (setup.rope, RopePairs::Halves);
        let append = RopeAppend { qkv: setup.qkv, q_heads, kv, rope, pairs, norm, pool };
        let queries = setup.qkv.columns(0, q_heads * kv.head_dim);
        let attend = Attend { q: queries, q_heads, kv, scale: (kv.head_dim as f32).powf(-0.5), pool };
        let qkv = device.stack(&[&q, &k, &v]).map_err(refused())?;
        Ok(Self { qkv, o: device.stack(&[&o]).map_err(refused())?, append, attend })
    }

    /// The linear that reads the normed residual stream.
    #[must_use]
    pub fn input(&self) -> Linear {
        self.qkv
    }

    /// The linear that reads what the heads found.
    #[must_use]
    pub fn output(&self) -> Linear {
        self.o
    }

    /// `x += attention(normed)`; `heads` is the operand of [`Self::output`].
    pub fn forward<D: Ops>(&self, device: &mut D, normed: Operand, heads: Operand, x: Act) {
        device.linear(normed, self.qkv, self.append.qkv);
        device.rope_append(&self.append);
        device.attention(&self.attend, heads);
        device.linear_add(heads, self.o, x);
    }
}

/// Frequencies and the projections' buffer of a model's attention.
pub fn shared<D: Build>(device: &mut D, config: &Config) -> (Rope, Act) {
    let heads = config.num_attention_heads + 2 * config.num_key_value_heads;
    let rope = device.rope(&rope::frequencies(&config.rope, config.head_dim), 1.0);
    (rope, device.act(Rows::Batch, heads * config.head_dim))
}
