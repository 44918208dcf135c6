//! Plans from a config alone: what they count is what checkpoints hold, and the published examples stay as computed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test, in its helpers too")]

use std::path::{Path, PathBuf};

use sluicegate_backend::inspect::inspect;
use sluicegate_backend::models::{CacheDtypes, survey};
use sluicegate_backend::plan::{Layout, Plan, Question, WeightFormat, Weights, Workload, device, plan};
use sluicegate_backend::weights::{Checkpoint, ModelConfig};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models").join(name)
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn published(name: &str) -> ModelConfig {
    let path = docs().join("scale").join(name);
    ModelConfig::parse(&path, &std::fs::read(&path).unwrap()).unwrap()
}

/// An agent in the middle of its work: a long context, most of it in the prefix cache.
const AGENT: Workload = Workload { context: 65_536, prompt: 6_000, output: 600, inter_token: 0.05 };

fn ask(config: &ModelConfig, kind: &str, devices: usize) -> Plan {
    let question = Question {
        device: device(kind).unwrap(),
        devices,
        format: WeightFormat::Nvfp4,
        dtypes: CacheDtypes::FP8,
        block_tokens: 1024,
        memory_utilization: 0.9,
        chunk: 8192,
        workload: AGENT,
    };
    plan(config, question).unwrap()
}

#[test]
fn a_survey_names_every_tensor_of_a_checkpoint() {
    for name in ["llama", "qwen3", "qwen3moe", "deepseek_v4"] {
        let checkpoint = Checkpoint::open(&golden(name)).unwrap();
        let mut asked: Vec<(String, Vec<usize>)> = survey(checkpoint.config())
            .into_iter()
            .map(|a| (if a.linear { format!("{}.weight", a.name) } else { a.name }, a.shape))
            .collect();
        asked.sort();
        let held: Vec<(String, Vec<usize>)> =
            checkpoint.tensors().map(|t| (t.name().to_owned(), t.shape().to_vec())).collect();
        assert_eq!(asked, held, "{name}");
    }
}

#[test]
fn counted_bytes_are_those_of_the_files() {
    for (name, format) in [
        ("llama", WeightFormat::Bf16),
        ("llama_nvfp4_modelopt", WeightFormat::Nvfp4),
        ("qwen3moe", WeightFormat::Bf16),
        ("deepseek_v4", WeightFormat::Bf16),
        ("deepseek_v4_nvfp4_mixed", WeightFormat::Nvfp4),
    ] {
        let found = inspect(&golden(name), CacheDtypes::BF16, 16).unwrap();
        let bytes: u64 = found.formats.values().map(|s| s.bytes).sum();
        // The table of experts by token is stored in 8 bytes each and used in 4.
        let table = if name.starts_with("deepseek") { 2 * 512 * 2 * 4 } else { 0 };
        assert_eq!(Weights::of(&found.config, format).total().bytes, (bytes - table) as f64, "{name}");
    }
}

#[test]
fn published_models_have_their_published_sizes() {
    let count = |name: &str| {
        let w = Weights::of(&published(name), WeightFormat::Nvfp4);
        (w.total().parameters / 1e9, w.active() / 1e9)
    };
    let ((flash, flash_active), (pro, pro_active)) = (count("deepseek_v4_flash.json"), count("deepseek_v4_pro.json"));
    assert!((flash - 284.0).abs() < 3.0 && (flash_active - 13.0).abs() < 1.5, "{flash} {flash_active}");
    assert!((pro - 1600.0).abs() < 60.0 && (pro_active - 49.0).abs() < 5.0, "{pro} {pro_active}");
}

#[test]
fn floors_follow_the_data_sheet() {
    let flash = published("deepseek_v4_flash.json");
    let p = ask(&flash, "rtx-pro-6000", 8);
    let tensor = p.options.iter().find(|o| o.layout == Layout::Tensor).unwrap();
    // One token reads six of 256 experts, its share of the rest, and its caches, at 1,792 GB/s.
    let w = &p.weights;
    let read = w.routed.bytes * 6.0 / 256.0 / 8.0 + (w.divided.bytes + w.head.bytes) / 8.0 + w.copied.bytes;
    let floor = tensor.decode[0].1;
    let caches = (floor.memory * 1792e9) - read;
    // 43 windows of 128 rows, 21 x (512 rows + 16,384 keys), 20 x 512 rows, of 584 and 68 bytes.
    let expected = 43.0 * 128.0 * 584.0 + 21.0 * (512.0 * 584.0 + 16_384.0 * 68.0) + 20.0 * 512.0 * 584.0;
    assert!((caches - expected).abs() < 1.0, "{caches} {expected}");
    // More sequences never make a step shorter, and never longer than each on its own.
    for o in &p.options {
        for pair in o.decode.windows(2) {
            let ((few, fast), (many, slow)) = (pair[0], pair[1]);
            assert!(slow.seconds() >= fast.seconds() && slow.seconds() / many <= fast.seconds() / few);
        }
    }
    assert!(p.fewest >= 2, "165 GB don't fit 86");
    // The best step keeps its promise and the next one would not.
    for o in &p.options {
        let best = o.best.unwrap();
        assert!(best.sequences * AGENT.context as f64 <= o.tokens + AGENT.context as f64);
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let text = ask(&published("deepseek_v4_pro.json"), "rtx-pro-6000", 4).to_string();
    assert!(text.contains("does not fit"), "{text}");
}

/// `docs/scale.md` shows what `sluicegate plan` prints.
#[test]
fn published_plans_are_what_is_computed() {
    let page = std::fs::read_to_string(docs().join("scale.md")).unwrap();
    let (flash, pro) = (published("deepseek_v4_flash.json"), published("deepseek_v4_pro.json"));
    for p in [ask(&flash, "rtx-pro-6000", 8), ask(&flash, "h200", 8), ask(&pro, "h200", 16)] {
        let text = p.to_string();
        assert!(page.contains(&text), "docs/scale.md does not show:\n{text}");
    }
}
