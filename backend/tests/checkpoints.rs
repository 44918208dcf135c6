//! The stored checkpoints open, describe themselves rightly, and every tensor is accounted for.

use std::path::PathBuf;

use sluicegate_backend::weights::config::{Family, RopeScaling};
use sluicegate_backend::weights::{Checkpoint, Linear, ModelConfig};

mod golden_llama;

use golden_llama::llama;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn llama_in_three_layouts() {
    for (name, format) in
        [("models/llama", "bf16"), ("models/llama_nvfp4_modelopt", "nvfp4"), ("models/llama_nvfp4_ct", "nvfp4")]
    {
        let checkpoint = Checkpoint::open(&folder(name)).unwrap();
        let weights = checkpoint.load(llama).unwrap();
        assert!(weights.iter().all(|w| w.format() == format), "{name}");
        for w in &weights {
            w.matrix().check().unwrap();
        }
        assert_eq!(checkpoint.eos_ids(), [1]);
        let Family::Llama(t) = &checkpoint.config().family else { panic!("{name} is a Llama") };
        assert_eq!((t.attention.num_key_value_heads, t.attention.head_dim), (2, 32));
    }
}

#[test]
fn reciprocal_globals_become_factors() {
    let of = |name| Checkpoint::open(&folder(name)).unwrap().load(llama).unwrap();
    let pairs = of("models/llama_nvfp4_modelopt").into_iter().zip(of("models/llama_nvfp4_ct"));
    for (direct, reciprocal) in pairs {
        let (Linear::Nvfp4 { packed: p, scales: s, scale_2: a, .. }, Linear::Nvfp4 { packed, scales, scale_2: b, .. }) =
            (direct, reciprocal)
        else {
            panic!("both are NVFP4")
        };
        assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
        assert_eq!((p.bytes(), s.bytes()), (packed.bytes(), scales.bytes()));
    }
}

#[test]
fn mixed_formats_are_told_apart_by_tensor() {
    let checkpoint = Checkpoint::open(&folder("models/deepseek_v4_nvfp4_mixed")).unwrap();
    let mut formats = Vec::new();
    // Asks for three tensors of many, so it fails; the stand-ins never get out, the formats are what is looked at.
    let refused = checkpoint.load(|load| {
        formats.push(load.linear("layers.1.ffn.experts.0.w1", 64, 128));
        formats.push(load.linear("layers.1.attn.wq_b", 512, 64));
        formats.push(load.linear("layers.1.attn.compressor.wkv", 256, 128));
    });
    assert!(refused.is_err());
    let names: Vec<_> = formats.iter().map(Linear::format).collect();
    assert_eq!(names, ["nvfp4", "fp8", "bf16"]);
    for w in &formats {
        w.matrix().check().unwrap();
    }
}

#[test]
fn all_wrong_tensors_are_named_at_once() {
    let checkpoint = Checkpoint::open(&folder("models/llama")).unwrap();
    let error = checkpoint
        .load(|load| {
            llama(load);
            load.linear("model.layers.3.self_attn.q_proj", 128, 128);
            load.vector("lm_head.bias", 512);
        })
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("2 problems in the checkpoint:"), "{error}");
    assert!(error.contains("`model.layers.3.self_attn.q_proj.weight`: is missing"), "{error}");
    assert!(error.contains("`lm_head.bias`: is missing"), "{error}");

    let error = checkpoint
        .load(|load| {
            load.ignore(|n| n != "model.norm.weight" && n != "model.layers.0.mlp.up_proj.weight");
            load.linear("model.layers.0.mlp.up_proj", 128, 128);
        })
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`model.layers.0.mlp.up_proj.weight`: has shape [256, 128], expected [128, 128]"),
        "{error}"
    );
    assert!(error.contains("`model.norm.weight`: is not part of this architecture"), "{error}");
    assert!(error.contains("model.safetensors"), "{error}");
}

#[test]
fn configs_of_all_families() {
    let read = |name: &str| ModelConfig::read(&folder(name)).unwrap();
    assert!(matches!(read("models/qwen3").family, Family::Qwen3(t) if t.attention.head_dim == 64));
    let Family::Qwen3Moe(_, moe) = read("models/qwen3moe").family else { panic!() };
    assert_eq!((moe.num_experts, moe.num_experts_per_tok, moe.norm_topk_prob), (8, 2, true));
    for name in ["models/deepseek_v4", "tiny-dsv4-tools/bf16"] {
        let Family::DeepseekV4(v) = read(name).family else { panic!() };
        assert_eq!(v.compress_ratios, [0, 4, 128, 4]);
        assert_eq!(v.rope.scaling, RopeScaling::None);
        assert!(matches!(v.compress_rope.scaling, RopeScaling::Yarn { .. }) && v.compress_rope.theta == 160_000.0);
    }
    let path = folder("models/llama/config_llama3rope.json");
    let config = ModelConfig::parse(&path, &std::fs::read(&path).unwrap()).unwrap();
    let Family::Llama(t) = config.family else { panic!() };
    assert!(matches!(t.attention.rope.scaling, RopeScaling::Llama3 { factor: 8.0, .. }));
}

#[test]
fn an_unknown_architecture_is_named() {
    let text = br#"{"architectures": ["GrokForCausalLM"], "model_type": "grok"}"#;
    let error = ModelConfig::parse("x/config.json".as_ref(), text).unwrap_err().to_string();
    assert!(error.contains("x/config.json: architecture `GrokForCausalLM` is not supported"), "{error}");
    assert!(error.contains("LlamaForCausalLM"), "{error}");
}
