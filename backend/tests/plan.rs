//! Plans from a config alone: what they count is what checkpoints hold, and the published examples stay as computed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test, in its helpers too")]

use std::path::{Path, PathBuf};

use sluicegate_backend::inspect::inspect;
use sluicegate_backend::models::{CacheDtypes, ModelOptions, cache_spec, survey};
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
        block_tokens: 0,
        draft_tokens: 0,
        mtp: false,
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
        let mut asked: Vec<(String, Vec<usize>)> = survey(checkpoint.config(), false)
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
        assert_eq!(Weights::of(&found.config, format, false).total().bytes, (bytes - table) as f64, "{name}");
    }
}

#[test]
fn published_models_have_their_published_sizes() {
    let count = |name: &str| {
        let w = Weights::of(&published(name), WeightFormat::Nvfp4, false);
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

/// Blocks that nobody asks for: what a block keeps once takes at most twice what its tokens take, and in the next smaller one more.
#[test]
fn blocks_suit_the_caches() {
    let flash = published("deepseek_v4_flash.json");
    let golden = |name: &str| ModelConfig::read(&golden(name)).unwrap();
    for (config, dtypes, draft_tokens, tokens) in [
        (&flash, CacheDtypes::FP8, 0, 1024),
        (&flash, CacheDtypes::FP8, 1, 1024),
        (&flash, CacheDtypes::BF16, 0, 512),
        (&published("deepseek_v4_pro.json"), CacheDtypes::FP8, 0, 1024),
        (&golden("deepseek_v4"), CacheDtypes::BF16, 0, 128),
        (&golden("llama"), CacheDtypes::BF16, 0, 16),
        (&golden("qwen3moe"), CacheDtypes::F32, 4, 16),
    ] {
        let mtp = draft_tokens == 1;
        let wanted =
            |block_tokens| ModelOptions { dtypes, simulate: false, draft_tokens, mtp, block_tokens }.sized(config);
        let name = &config.architecture;
        assert_eq!(wanted(0).block_tokens, tokens, "{name} {dtypes:?}");
        let bytes = |tokens| cache_spec(config, wanted(tokens)).unwrap().block_bytes() as u64;
        let each = bytes(8192) - bytes(4096);
        let once = |tokens: u32| bytes(tokens) - each * u64::from(tokens) / 4096;
        assert!(once(tokens) * 4096 <= 2 * each * u64::from(tokens), "{name} {dtypes:?}");
        assert!(tokens <= 128 || once(tokens / 2) * 4096 > each * u64::from(tokens), "{name} {dtypes:?}");
        // A short context has no large blocks.
        let mut short = config.clone();
        short.max_position_embeddings = 4096;
        let sized = ModelOptions { block_tokens: 0, ..wanted(0) }.sized(&short);
        assert_eq!(sized.block_tokens, tokens.min(128), "{name} {dtypes:?}");
        // What is asked for is what is given, as far as the caches divide it.
        assert_eq!(wanted(48).block_tokens, if name.starts_with("Deepseek") { 128 } else { 48 });
    }
}

/// A model without experts is spread by copies or by cutting, and the text says so.
#[test]
fn a_model_without_experts_is_not_said_to_spread_them() {
    let like = ask(&published("deepseek_v4_flash.json"), "h200", 2).question;
    let question = Question { dtypes: CacheDtypes::BF16, format: WeightFormat::Bf16, ..like };
    let text = plan(&ModelConfig::read(&golden("llama")).unwrap(), question).unwrap().to_string();
    assert!(text.contains("data-parallel over 2, the whole model on each") && !text.contains("experts"), "{text}");
}

/// The drafting layer takes memory and is shown; floors are those of steps without drafts.
#[test]
fn the_drafting_layer_is_planned_for() {
    let flash = published("deepseek_v4_flash.json");
    let plain = ask(&flash, "h200", 8);
    let drafting = plan(&flash, Question { draft_tokens: 1, mtp: true, ..plain.question }).unwrap();
    let layer = drafting.weights.drafting();
    // One of 43 layers more, and two square projections.
    assert!((layer.parameters / 1e9 - 6.6).abs() < 0.1, "{layer:?}");
    for (with, without) in drafting.options.iter().zip(&plain.options) {
        assert!(with.weights > without.weights + layer.bytes / 8.0 && with.tokens < without.tokens);
        assert_eq!(with.decode, without.decode);
    }
    assert!(drafting.to_string().contains("\n  drafter ") && !plain.to_string().contains("drafter"));
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
