//! Number formats of caches, and what each architecture keeps: from its config alone, so that weights are not needed to plan.

use sluicegate_kernels::ops::{KvShape, KvStore};
use sluicegate_kernels::rows::RowStore;

use super::{ModelOptions, deepseek_v4};
use crate::exec::{CacheSpec, PoolSpec};
use crate::layers::LoadError;
use crate::weights::config::{Family, ModelConfig};

/// Number format of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvCacheDtype {
    /// Single precision; what reference arithmetic takes.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// E4M3 with a power-of-two scale for each 64 numbers and the rotated end in BF16: DeepSeek-V4 only.
    Fp8,
}

/// Number format of an indexer's keys (DeepSeek-V4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexCacheDtype {
    /// Single precision.
    F32,
    /// bfloat16.
    Bf16,
    /// E4M3 with one scale a row.
    Fp8,
    /// E2M1 with a power-of-two scale for each 32 numbers.
    Fp4,
}

/// Number formats of all caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheDtypes {
    /// Keys and values.
    pub kv: KvCacheDtype,
    /// An indexer's keys; architectures without one ignore it.
    pub index: IndexCacheDtype,
}

impl CacheDtypes {
    /// Everything exact.
    pub const F32: Self = Self { kv: KvCacheDtype::F32, index: IndexCacheDtype::F32 };
    /// Everything in bfloat16.
    pub const BF16: Self = Self { kv: KvCacheDtype::Bf16, index: IndexCacheDtype::Bf16 };
    /// What DeepSeek-V4 is served with: 8-bit rows, 4-bit index keys.
    pub const FP8: Self = Self { kv: KvCacheDtype::Fp8, index: IndexCacheDtype::Fp4 };

    /// Rows whose last `tail` numbers are rotated.
    pub(crate) fn rows(self, tail: usize) -> RowStore {
        self.plain().map_or(RowStore::Fp8 { tail }, RowStore::Plain)
    }

    /// An indexer's keys.
    pub(crate) fn index_rows(self) -> RowStore {
        match self.index {
            IndexCacheDtype::F32 => RowStore::Plain(KvStore::F32),
            IndexCacheDtype::Bf16 => RowStore::Plain(KvStore::Bf16),
            IndexCacheDtype::Fp8 => RowStore::Fp8Row,
            IndexCacheDtype::Fp4 => RowStore::Fp4,
        }
    }

    /// The format of keys and values if all their numbers are alike.
    fn plain(self) -> Option<KvStore> {
        match self.kv {
            KvCacheDtype::F32 => Some(KvStore::F32),
            KvCacheDtype::F16 => Some(KvStore::F16),
            KvCacheDtype::Bf16 => Some(KvStore::Bf16),
            KvCacheDtype::Fp8 => None,
        }
    }

    /// The format of plain keys and values.
    ///
    /// # Errors
    /// There is none for 8-bit rows.
    pub(crate) fn kv_store(self) -> Result<KvStore, LoadError> {
        let why = "kv_cache_dtype fp8 is for DeepSeek-V4's rows; choose f32, f16 or bf16 for this architecture";
        self.plain().ok_or_else(|| LoadError::Device(why.into()))
    }
}

/// Keys and values of one layer of grouped-query attention.
pub(crate) fn kv_pool(layer: u32, kv: KvShape) -> PoolSpec {
    PoolSpec { name: "kv", layer, tokens_per_row: 1, row_bytes: kv.row_bytes() as u32 }
}

/// The caches of a model, as building it declares them.
///
/// # Errors
/// A number format that the architecture doesn't have.
pub fn cache_spec(config: &ModelConfig, options: ModelOptions) -> Result<CacheSpec, LoadError> {
    options.check_mtp(config)?;
    let layers = 0..config.num_hidden_layers as u32;
    let pools = match &config.family {
        Family::Llama(t) | Family::Qwen3(t) | Family::Qwen3Moe(t, _) => {
            let (heads, head_dim) = (t.attention.num_key_value_heads, t.attention.head_dim);
            let kv = KvShape { heads, head_dim, store: options.dtypes.kv_store()? };
            layers.map(|layer| kv_pool(layer, kv)).collect()
        }
        Family::DeepseekV4(v4) => {
            let drafting = options.mtp.then(|| deepseek_v4::drafting_pools(config, v4, options));
            let decoder = layers.flat_map(|layer| deepseek_v4::pools(v4, layer, options));
            decoder.chain(drafting.into_iter().flatten()).collect()
        }
    };
    Ok(CacheSpec {
        block_tokens: options.block_tokens,
        formats: options.formats(config),
        pools,
        states: Vec::new(),
        rewinds: match &config.family {
            Family::DeepseekV4(_) => options.draft_tokens,
            _ => u32::MAX,
        },
    })
}

/// Most tokens in a block that is not asked for, and fewest such blocks in the longest sequence.
const LARGEST_BLOCK: u32 = 4096;
const FEWEST_BLOCKS: u32 = 64;

impl ModelOptions {
    /// With a block size that every cache divides: the next one from what [`ModelOptions::block_tokens`] asks for. Where that is 0,
    /// what suits the caches: a block of many tokens is found again less often and left half empty more often, and one of few
    /// repeats what a block keeps once (a window's rows, a compressor's pending state) more often. That may take up to twice as much
    /// as the tokens' own rows, if the longest sequence then has at least 64 blocks.
    #[must_use]
    pub fn sized(self, config: &ModelConfig) -> Self {
        let smallest = match &config.family {
            Family::Llama(_) | Family::Qwen3(_) | Family::Qwen3Moe(..) => 16,
            // Compressed rows cover up to 128 tokens.
            Family::DeepseekV4(_) => 128,
        };
        let block_tokens = match (self.block_tokens, smallest) {
            (0, _) => self.suiting(config, smallest),
            (wanted, 16) => wanted,
            (wanted, _) => wanted.next_multiple_of(smallest),
        };
        Self { block_tokens, ..self }
    }

    fn suiting(self, config: &ModelConfig, smallest: u32) -> u32 {
        let bytes = |block_tokens| cache_spec(config, Self { block_tokens, ..self }).ok().map(|c| c.block_bytes());
        // In blocks this large no window is cut short, so that bytes grow by those of a token.
        let Some((large, larger)) = bytes(LARGEST_BLOCK).zip(bytes(2 * LARGEST_BLOCK)) else { return smallest };
        let in_tokens = larger - large;
        let once = large - in_tokens;
        let most = LARGEST_BLOCK.min(config.max_position_embeddings as u32 / FEWEST_BLOCKS);
        let fits = |tokens: &u32| once <= 2 * in_tokens / LARGEST_BLOCK as usize * *tokens as usize;
        std::iter::successors(Some(smallest), |t| Some(2 * t)).find(|t| fits(t) || 2 * t > most).unwrap_or(smallest)
    }

    /// Refuses drafting layers that the config says can't be run.
    pub(super) fn check_mtp(self, config: &ModelConfig) -> Result<(), LoadError> {
        let why = match &config.family {
            _ if !self.mtp => return Ok(()),
            Family::DeepseekV4(v4) => match &v4.mtp_refusal {
                None => return Ok(()),
                Some(why) => format!("the drafting layer {why}"),
            },
            _ => format!("{} has no drafting layer", config.architecture),
        };
        Err(LoadError::Device(format!("{why}; the speculative method \"ngram\" needs none")))
    }

    /// All that decides what the bytes of a block mean, beside the pools' sizes: two workers that differ in it share nothing.
    pub(crate) fn formats(self, config: &ModelConfig) -> String {
        let kv = format!("kv {:?}", self.dtypes.kv).to_lowercase();
        match &config.family {
            Family::DeepseekV4(_) => {
                let index = format!("{:?}", self.dtypes.index).to_lowercase();
                let rounded = if self.simulate { ", rounded as the reference rounds" } else { "" };
                format!("{kv}, index {index}{rounded}")
            }
            _ => kv,
        }
    }
}
