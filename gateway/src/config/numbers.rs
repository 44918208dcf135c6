//! How numbers are computed and kept: keys of `[engine]`, and flags of the same names.

use clap::{Args, ValueEnum};
use serde::Deserialize;
use sluicegate_backend::models::{CacheDtypes, IndexCacheDtype, KvCacheDtype};
use sluicegate_backend::run::CpuRunOptions;

/// `engine.arithmetic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// 4-bit weights meet 8-bit integers.
    #[default]
    Fast,
    /// The specification: single precision, weights decoded exactly.
    Reference,
}

/// `engine.kv_cache_dtype`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum KvDtype {
    /// bf16; f32 in reference arithmetic.
    #[default]
    Auto,
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// E4M3 with scales, DeepSeek-V4 only.
    Fp8,
}

/// `engine.index_cache_dtype`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum IndexDtype {
    /// As wide as the KV cache; fp4 beside fp8.
    #[default]
    Auto,
    /// Single precision.
    F32,
    /// bfloat16.
    Bf16,
    /// E4M3 with one scale a key.
    Fp8,
    /// E2M1 with a scale for each 32 numbers.
    Fp4,
}

/// `engine.nvfp4_gemm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Nvfp4Gemm {
    /// NVFP4 weights meet activations of 16 bits.
    #[default]
    W4a16,
    /// They meet activations in NVFP4.
    W4a4,
}

/// All of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct Numbers {
    /// Arithmetic of the CPU.
    #[arg(long, value_enum, default_value_t)]
    pub arithmetic: Arithmetic,
    /// Number format of cached keys and values.
    #[arg(long, value_enum, default_value_t)]
    pub kv_cache_dtype: KvDtype,
    /// Number format of an indexer's cached keys (DeepSeek-V4).
    #[arg(long, value_enum, default_value_t)]
    pub index_cache_dtype: IndexDtype,
    /// Round what the vendor's kernels round (DeepSeek-V4), even where this device would not have to.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub activation_simulation: bool,
    /// What NVFP4 weights are multiplied with. W4A4 needs a checkpoint that was made for it, and a GPU of compute capability 12.x or
    /// reference arithmetic.
    #[arg(long, value_enum, default_value_t)]
    pub nvfp4_gemm: Nvfp4Gemm,
}

impl Numbers {
    /// Number formats of caches.
    #[must_use]
    pub fn dtypes(self) -> CacheDtypes {
        let kv = match (self.kv_cache_dtype, self.arithmetic) {
            (KvDtype::Auto, Arithmetic::Reference) | (KvDtype::F32, _) => KvCacheDtype::F32,
            (KvDtype::Auto, Arithmetic::Fast) | (KvDtype::Bf16, _) => KvCacheDtype::Bf16,
            (KvDtype::F16, _) => KvCacheDtype::F16,
            (KvDtype::Fp8, _) => KvCacheDtype::Fp8,
        };
        let index = match (self.index_cache_dtype, kv) {
            (IndexDtype::F32, _) | (IndexDtype::Auto, KvCacheDtype::F32) => IndexCacheDtype::F32,
            (IndexDtype::Bf16, _) | (IndexDtype::Auto, KvCacheDtype::F16 | KvCacheDtype::Bf16) => IndexCacheDtype::Bf16,
            (IndexDtype::Fp8, _) => IndexCacheDtype::Fp8,
            (IndexDtype::Fp4, _) | (IndexDtype::Auto, KvCacheDtype::Fp8) => IndexCacheDtype::Fp4,
        };
        CacheDtypes { kv, index }
    }

    /// Options with these numbers.
    #[must_use]
    pub fn of(self, options: CpuRunOptions) -> CpuRunOptions {
        let arithmetic = match self.arithmetic {
            Arithmetic::Fast => sluicegate_backend::run::Arithmetic::Fast,
            Arithmetic::Reference => sluicegate_backend::run::Arithmetic::Reference,
        };
        let fp4_activations = self.nvfp4_gemm == Nvfp4Gemm::W4a4;
        CpuRunOptions {
            dtypes: self.dtypes(),
            simulate: self.activation_simulation,
            fp4_activations,
            arithmetic,
            ..options
        }
    }
}
