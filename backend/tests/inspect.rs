//! A model folder described without loading it.

use std::path::{Path, PathBuf};

use sluicegate_backend::inspect::inspect;
use sluicegate_backend::run::{CpuRunOptions, open_cpu};
use sluicegate_kernels::ops::KvStore;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models").join(name)
}

#[test]
fn formats_add_up_to_the_file() {
    for name in
        ["llama", "llama_nvfp4_modelopt", "llama_nvfp4_ct", "qwen3moe", "deepseek_v4", "deepseek_v4_nvfp4_mixed"]
    {
        let found = inspect(&golden(name), KvStore::Bf16, 512).unwrap();
        let file = std::fs::read(golden(name).join("model.safetensors")).unwrap();
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let bytes: u64 = found.formats.values().map(|s| s.bytes).sum();
        assert_eq!(bytes as usize, file.len() - 8 - header, "{name}");
    }
}

#[test]
fn the_same_model_has_the_same_parameters_in_every_format() {
    let parameters = |name| inspect(&golden(name), KvStore::Bf16, 512).unwrap().parameters();
    assert_eq!(parameters("llama"), parameters("llama_nvfp4_modelopt"));
    assert_eq!(parameters("llama"), parameters("llama_nvfp4_ct"));
    assert_eq!(parameters("deepseek_v4"), parameters("deepseek_v4_nvfp4_mixed"));
    assert_eq!(parameters("deepseek_v4"), parameters("deepseek_v4_nvfp4_modelopt"));
}

#[test]
fn caches_are_those_of_a_running_model() {
    use sluicegate_backend::exec::Executor as _;
    for name in ["llama", "qwen3", "deepseek_v4"] {
        let found = inspect(&golden(name), KvStore::Bf16, 64).unwrap();
        let options = CpuRunOptions { blocks: 8, sequences: 1, rows: 64, ..CpuRunOptions::default() };
        assert_eq!(found.cache, open_cpu(&golden(name), &options).unwrap().model().cache, "{name}");
    }
    // Two layers' keys and values: 2 heads of 32 twice, BF16, 3 layers.
    let llama = inspect(&golden("llama"), KvStore::Bf16, 64).unwrap();
    assert_eq!(llama.kv_bytes_per_token(), 2.0 * 2.0 * 32.0 * 2.0 * 3.0);
    let memory = (llama.weights + llama.activations + 10 * llama.cache.block_bytes() + 5) as u64;
    assert_eq!(llama.tokens_in(memory), 160);
}

#[test]
fn a_broken_folder_is_refused_with_its_tensors() {
    let dir = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden("qwen3").join(file), dir.path().join(file)).unwrap();
    }
    std::fs::copy(golden("llama").join("model.safetensors"), dir.path().join("model.safetensors")).unwrap();
    let error = inspect(dir.path(), KvStore::Bf16, 64).unwrap_err().to_string();
    assert!(error.contains("`lm_head.weight`: is missing"), "{error}");
    assert!(error.contains("`model.layers.2.self_attn.q_norm.weight`: is missing"), "{error}");
}
