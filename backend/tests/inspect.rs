//! A model folder described without loading it.

use std::path::{Path, PathBuf};

use sluicegate_backend::exec::Executor as _;
use sluicegate_backend::inspect::inspect;
use sluicegate_backend::models::{CacheDtypes, ModelOptions, cache_spec};
use sluicegate_backend::run::{CpuRunOptions, open_cpu};
use sluicegate_backend::weights::ModelConfig;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models").join(name)
}

#[test]
fn formats_add_up_to_the_file() {
    for name in
        ["llama", "llama_nvfp4_modelopt", "llama_nvfp4_ct", "qwen3moe", "deepseek_v4", "deepseek_v4_nvfp4_mixed"]
    {
        let found = inspect(&golden(name), CacheDtypes::BF16, 512).unwrap();
        let file = std::fs::read(golden(name).join("model.safetensors")).unwrap();
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let bytes: u64 = found.formats.values().map(|s| s.bytes).sum();
        assert_eq!(bytes as usize, file.len() - 8 - header, "{name}");
    }
}

#[test]
fn the_same_model_has_the_same_parameters_in_every_format() {
    let parameters = |name| inspect(&golden(name), CacheDtypes::BF16, 512).unwrap().parameters();
    assert_eq!(parameters("llama"), parameters("llama_nvfp4_modelopt"));
    assert_eq!(parameters("llama"), parameters("llama_nvfp4_ct"));
    assert_eq!(parameters("deepseek_v4"), parameters("deepseek_v4_nvfp4_mixed"));
    assert_eq!(parameters("deepseek_v4"), parameters("deepseek_v4_nvfp4_modelopt"));
}

#[test]
fn caches_are_those_of_a_running_model() {
    for name in ["llama", "qwen3", "deepseek_v4"] {
        let found = inspect(&golden(name), CacheDtypes::BF16, 64).unwrap();
        let options = CpuRunOptions { blocks: 8, sequences: 1, rows: 64, simulate: false, ..CpuRunOptions::default() };
        assert_eq!(found.cache, open_cpu(&golden(name), &options).unwrap().model().cache, "{name}");
    }
    // Two layers' keys and values: 2 heads of 32 twice, BF16, 3 layers.
    let llama = inspect(&golden("llama"), CacheDtypes::BF16, 64).unwrap();
    assert_eq!(llama.kv_bytes_per_token(), 2.0 * 2.0 * 32.0 * 2.0 * 3.0);
    let memory = (llama.weights + llama.activations + 10 * llama.cache.block_bytes() + 5) as u64;
    assert_eq!(llama.tokens_in(memory), 160);
}

/// What a config alone declares is what building the model declares, in every number format and block size.
#[test]
fn caches_follow_from_the_config() {
    use sluicegate_backend::models::{IndexCacheDtype as Index, KvCacheDtype as Kv};
    for name in ["llama", "qwen3moe", "deepseek_v4"] {
        let config = ModelConfig::read(&golden(name)).unwrap();
        for (kv, index) in
            [(Kv::F32, Index::F32), (Kv::Bf16, Index::Bf16), (Kv::Fp8, Index::Fp8), (Kv::Fp8, Index::Fp4)]
        {
            let dtypes = CacheDtypes { kv, index };
            for wanted in [128, 512] {
                let options = ModelOptions {
                    dtypes,
                    simulate: kv == Kv::Fp8,
                    draft_tokens: wanted / 128,
                    mtp: false,
                    block_tokens: wanted,
                };
                let run = CpuRunOptions {
                    blocks: 4,
                    block_tokens: wanted,
                    sequences: 1,
                    rows: 16,
                    dtypes,
                    simulate: options.simulate,
                    draft_tokens: options.draft_tokens,
                    ..CpuRunOptions::default()
                };
                match (cache_spec(&config, options), open_cpu(&golden(name), &run)) {
                    (Ok(spec), Ok(runner)) => assert_eq!(&spec, &runner.model().cache, "{name} {dtypes:?}"),
                    (Err(a), Err(b)) => {
                        assert_eq!(a.to_string(), b.to_string());
                        assert!(a.to_string().contains("kv_cache_dtype fp8 is for DeepSeek-V4's rows"), "{a}");
                    }
                    (a, b) => panic!("{name} {dtypes:?}: {a:?}, {:?}", b.map(|_| ())),
                }
            }
        }
    }
}

/// Bytes of a token of context as DeepSeek-V4's rows are published: 584 a row, 68 or 132 an index key; the window once a block.
#[test]
fn bytes_of_a_row_are_those_of_the_published_layout() {
    let mut json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(golden("deepseek_v4").join("config.json")).unwrap()).unwrap();
    for (key, value) in [("head_dim", 512), ("qk_rope_head_dim", 64), ("index_head_dim", 128), ("sliding_window", 128)]
    {
        json[key] = value.into();
    }
    let config = ModelConfig::parse("x".as_ref(), json.to_string().as_bytes()).unwrap();
    let options =
        ModelOptions { dtypes: CacheDtypes::FP8, simulate: true, draft_tokens: 0, mtp: false, block_tokens: 512 };
    let spec = cache_spec(&config, options).unwrap();
    let bytes = |name: &str| spec.pools.iter().find(|p| p.name == name).unwrap().row_bytes;
    assert_eq!((bytes("csa"), bytes("hca"), bytes("index_k"), bytes("window")), (584, 584, 68, 128 * 584));
}

#[test]
fn a_broken_folder_is_refused_with_its_tensors() {
    let dir = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden("qwen3").join(file), dir.path().join(file)).unwrap();
    }
    std::fs::copy(golden("llama").join("model.safetensors"), dir.path().join("model.safetensors")).unwrap();
    let error = inspect(dir.path(), CacheDtypes::BF16, 64).unwrap_err().to_string();
    assert!(error.contains("`lm_head.weight`: is missing"), "{error}");
    assert!(error.contains("`model.layers.2.self_attn.q_norm.weight`: is missing"), "{error}");
}
