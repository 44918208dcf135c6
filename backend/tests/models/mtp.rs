//! The drafting layer of DeepSeek-V4: its logits against the oracle, its caches under chunks, rejected drafts and load, what it drafts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde::Deserialize;
use sluicegate_backend::api::{Event, GenerateRequest, Sampling};
use sluicegate_backend::draft::{Method, Speculation};
use sluicegate_backend::engine::{Config, Engine, Stats, Workers};
use sluicegate_backend::exec::{Executor as _, Plan};
use sluicegate_backend::inspect::inspect;
use sluicegate_backend::models::{CacheDtypes, ModelOptions, cache_spec, survey};
use sluicegate_backend::plan::{WeightFormat, Weights};
use sluicegate_backend::run::{CpuRunOptions, Runner, open_cpu};
use sluicegate_backend::weights::Checkpoint;
use sluicegate_kernels::cpu::Cpu;

use crate::drive::{logits, open, plan};
use crate::golden::{Golden, distance, model, rows};
use crate::oracle::TOLERANCE;

/// Most tokens of a draft.
const DRAFTS: u32 = 3;

#[derive(Deserialize)]
struct Expected {
    name: String,
    positions: Vec<usize>,
    chain: Vec<u32>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mtp")
}

/// A golden DeepSeek-V4 with the drafting layer in a second shard, whose tensors are first passed through `change`.
pub(crate) fn with_mtp(dir: &str, change: impl Fn(&str) -> Option<String>) -> tempfile::TempDir {
    let (from, to) = (model(dir), tempfile::tempdir().expect("a folder"));
    let read = |path: &Path| std::fs::read(path).expect("a golden");
    let main = read(&from.join("model.safetensors"));
    let bytes = read(&folder().join("mtp.safetensors"));
    let own = SafeTensors::deserialize(&bytes).expect("a golden");
    let renamed: Vec<_> = own.tensors().into_iter().filter_map(|(n, t)| change(&n).map(|n| (n, t))).collect();
    let decoder = SafeTensors::deserialize(&main).expect("a golden");
    let names = decoder.names().into_iter().map(str::to_owned);
    let mut places: BTreeMap<String, &str> = names.map(|n| (n, "main.safetensors")).collect();
    places.extend(renamed.iter().map(|(n, _)| (n.clone(), "mtp.safetensors")));
    safetensors::serialize_to_file(renamed, None, &to.path().join("mtp.safetensors")).expect("a shard");
    std::fs::write(to.path().join("main.safetensors"), &main).expect("a shard");
    let index = serde_json::json!({ "weight_map": places });
    std::fs::write(to.path().join("model.safetensors.index.json"), index.to_string()).expect("an index");
    let mut config: serde_json::Value = serde_json::from_slice(&read(&from.join("config.json"))).expect("a config");
    config["num_nextn_predict_layers"] = 1.into();
    config["compress_ratios"].as_array_mut().expect("ratios").push(0.into());
    std::fs::write(to.path().join("config.json"), config.to_string()).expect("a config");
    to
}

fn whole(dir: &str) -> tempfile::TempDir {
    with_mtp(dir, |name| Some(name.into()))
}

fn drafting(options: CpuRunOptions) -> CpuRunOptions {
    CpuRunOptions { mtp: true, draft_tokens: DRAFTS, ..options }
}

/// The plan that guesses what follows `token` at a position.
fn guess(token: u32, position: usize, table: &[u32]) -> Plan {
    plan(&[token], position as u32, table)
}

fn draft(runner: &mut Runner<Cpu>, token: u32, position: usize, table: &[u32]) -> Vec<f32> {
    runner.draft_logits(&guess(token, position, table)).expect("a draft runs").row(0).to_vec()
}

/// Feeds `tokens` in chunks of these sizes and guesses behind each chunk, at the first token that is not computed yet.
fn guesses(
    runner: &mut Runner<Cpu>,
    tokens: &[u32],
    sizes: impl Iterator<Item = usize>,
    table: &[u32],
) -> Vec<(usize, Vec<f32>)> {
    let (mut start, mut out) = (0, Vec::new());
    for size in sizes {
        let end = start + size;
        if end >= tokens.len() {
            break;
        }
        for from in (start..end).step_by(100) {
            let step = &tokens[from..end.min(from + 100)];
            runner.logits(&plan(step, from as u32, table)).expect("a plan runs");
        }
        out.push((end, draft(runner, tokens[end], end, table)));
        start = end;
    }
    out
}

fn check_oracle(set: &str, dir: &str) {
    let checkpoint = whole(dir);
    let golden = Golden::read(set);
    let file = std::fs::read(folder().join("drafts.safetensors")).expect("the goldens are whole");
    let json = std::fs::read(folder().join("drafts.json")).expect("the goldens are whole");
    let sets: BTreeMap<String, Vec<Expected>> = serde_json::from_slice(&json).expect("the goldens are whole");
    let mut runner = open(checkpoint.path(), drafting(CpuRunOptions::reference()));
    let table: Vec<u32> = (0..8).rev().collect();
    let mut worst = 0f32;
    for (p, e) in golden.prompts.iter().zip(&sets[set]) {
        assert_eq!(p.name, e.name);
        let tokens: Vec<u32> = p.ids.iter().chain(&p.greedy).copied().collect();
        let stored = rows(&file, &format!("{set}.{}.drafts", p.name));
        // Up to each stored position, then a guess there.
        let ends = std::iter::once(&0).chain(&e.positions).zip(&e.positions).map(|(from, to)| to - from);
        let found = guesses(&mut runner, &tokens, ends, &table);
        assert_eq!(found.len(), stored.len(), "{set} {}", p.name);
        for ((position, found), stored) in found.iter().zip(&stored) {
            let error = distance(found, stored);
            assert!(error <= TOLERANCE, "{set} {} position {position}: {error}", p.name);
            worst = worst.max(error);
        }
        // Behind the prompt and its first token, each guess on the one before.
        logits(&mut runner, &p.ids, &[100], &table);
        let chain = std::iter::once(&p.greedy[0]).chain(&e.chain);
        let stored = rows(&file, &format!("{set}.{}.chain", p.name));
        for ((i, &token), stored) in chain.enumerate().zip(&stored).take(DRAFTS as usize) {
            let error = distance(&draft(&mut runner, token, p.ids.len() + i, &table), stored);
            assert!(error <= TOLERANCE, "{set} {} draft {i}: {error}", p.name);
            worst = worst.max(error);
        }
    }
    println!("{set}, drafting layer: largest difference {worst:e}");
}

#[test]
fn drafts_are_those_of_the_oracle() {
    check_oracle("deepseek_v4", "deepseek_v4");
}

/// The model's experts are NVFP4, those of the drafting layer MXFP4: formats are told from each tensor.
#[test]
fn drafts_are_those_of_the_oracle_where_formats_differ() {
    check_oracle("deepseek_v4_mixed", "deepseek_v4_nvfp4_mixed");
}

/// However the text was cut into steps, whatever was guessed and rejected in between, wherever its blocks lie: the same bits.
#[test]
fn drafts_depend_on_the_text_alone() {
    let checkpoint = whole("deepseek_v4_nvfp4_mixed");
    let narrow = CpuRunOptions { dtypes: CacheDtypes::FP8, block_tokens: 256, ..CpuRunOptions::default() };
    for options in [CpuRunOptions::reference(), CpuRunOptions::default(), narrow] {
        let mut runner = open(checkpoint.path(), drafting(options));
        let blocks = runner.capacity().blocks;
        let tables: [Vec<u32>; 2] = [(0..blocks).collect(), (0..blocks).map(|b| (b * 5 + 3) % blocks).collect()];
        for p in &Golden::read("deepseek_v4_mixed").prompts {
            let tokens: Vec<u32> = p.ids.iter().chain(&p.greedy).copied().collect();
            let singly = guesses(&mut runner, &tokens, std::iter::repeat(1), &tables[0]);
            assert_eq!(singly.len(), tokens.len() - 1);
            for sizes in [&[5, 1, 18, 33][..], &[100], &[127, 1, 1, 128]] {
                let chunks = sizes.iter().copied().cycle();
                for (position, found) in guesses(&mut runner, &tokens, chunks, &tables[1]) {
                    assert!(found == singly[position - 1].1, "{} position {position}, chunks {sizes:?}", p.name);
                }
            }
            // A chain of guesses before each step, which then runs wrong tokens, of which it keeps one.
            for start in (1..tokens.len() - 5).step_by(3) {
                runner.logits(&plan(&tokens[..start], 0, &tables[1])).unwrap();
                for at in start..start + 2 {
                    let mut chain = tokens[at..=at].to_vec();
                    chain.resize(DRAFTS as usize, 7);
                    let first = draft(&mut runner, chain[0], at, &tables[1]);
                    assert!(first == singly[at - 1].1, "{} position {at}", p.name);
                    (1..chain.len()).for_each(|i| drop(draft(&mut runner, chain[i], at + i, &tables[1])));
                    chain.push(7);
                    runner.logits(&plan(&chain, at as u32, &tables[1])).unwrap();
                }
                if start > 40 {
                    break;
                }
            }
        }
    }
}

/// Every kind of load, with drafts of the model's own layer where the mode drafts.
#[test]
fn output_is_the_same_under_load() {
    let checkpoint = whole("deepseek_v4_nvfp4_mixed");
    let served = CpuRunOptions { dtypes: CacheDtypes::FP8, ..CpuRunOptions::default() };
    crate::load::check(
        "deepseek_v4_mixed",
        checkpoint.path(),
        20,
        CpuRunOptions { mtp: true, draft_tokens: 4, ..served },
    );
}

fn request(i: u64) -> GenerateRequest {
    // Only three tokens can come, so that a guess is often right and often wrong.
    let bias = [70, 71, 72].map(|id| (id, 100.0)).to_vec();
    let sampling = Sampling { temperature: (i % 2) as f32, seed: i, logit_bias: bias, ..Sampling::default() };
    let prompt = (0..20 + i as u32 * 11).map(|t| 3 + (t * 37 + i as u32) % 500).collect();
    GenerateRequest {
        id: format!("r{i}").into(),
        prompt,
        sampling,
        stop_ids: Vec::new(),
        max_tokens: 40,
        logprobs: Some(1),
        grammar: None,
        priority: 0,
        deadline: None,
        share: 0,
    }
}

/// What requests yield one after another, and the engine's figures.
fn generate(dir: &Path, speculation: Option<Speculation>) -> (Vec<Vec<u32>>, Stats) {
    let options = CpuRunOptions { mtp: true, draft_tokens: DRAFTS, blocks: 512, ..CpuRunOptions::default() };
    let runner = open_cpu(dir, &options).expect("a golden model opens");
    let config = Config { speculation, stream_tokens: 64, ..Config::default() };
    let engine = Engine::start(Workers::Both(Box::new(runner)), &config).expect("an engine");
    let one = |i| {
        let mut generation = engine.submit(request(i)).expect("room");
        let mut tokens = Vec::new();
        while let Some(event) = generation.blocking_recv() {
            match event {
                Event::Token { id, .. } => tokens.push(id),
                Event::Failed(e) => panic!("{e}"),
                _ => {}
            }
        }
        tokens
    };
    let all = (0..8).map(one).collect();
    let stats = engine.stats();
    engine.shutdown(std::time::Duration::from_secs(1));
    (all, stats)
}

#[test]
fn right_guesses_save_steps_and_wrong_ones_change_nothing() {
    let checkpoint = whole("deepseek_v4");
    let own = |n| Speculation { num_speculative_tokens: n, disable_by_batch_size: 0, method: Method::Mtp };
    let (plain, _) = generate(checkpoint.path(), None);
    for n in [1, DRAFTS as usize] {
        let (drafted, stats) = generate(checkpoint.path(), Some(own(n)));
        assert_eq!(drafted, plain);
        let (checked, right) = (stats.spec_decode_draft_tokens_total, stats.spec_decode_accepted_tokens_total);
        println!("drafts of {n}: {checked} tokens checked, {right} right, {} drafts", stats.spec_decode_drafts_total);
        assert!(right * 5 > checked && right < checked, "{right} of {checked}");
    }
}

#[test]
fn a_checkpoint_without_the_layer_or_with_a_damaged_one_says_so() {
    let refused = |dir: &Path| match open_cpu(dir, &drafting(CpuRunOptions::default())) {
        Ok(_) => panic!("opened"),
        Err(e) => e.to_string(),
    };
    let none = refused(&model("deepseek_v4"));
    assert!(none.contains("`mtp.0`: is missing: this checkpoint has no drafting layer"), "{none}");
    assert!(none.contains("method \"ngram\"") && none.lines().count() < 4, "{none}");
    let dense = refused(&model("llama"));
    assert!(dense.contains("LlamaForCausalLM has no drafting layer"), "{dense}");
    let part = with_mtp("deepseek_v4", |n| (n != "mtp.0.e_proj.weight" && n != "mtp.0.hc_head_fn").then(|| n.into()));
    let part = refused(part.path());
    assert!(
        part.contains("`mtp.0.e_proj.weight`: is missing") && part.contains("`mtp.0.hc_head_fn`: is missing"),
        "{part}"
    );
    let swap = |n: &str| match n {
        "mtp.0.attn.wq_a.weight" => "mtp.0.attn.wq_b.weight".to_owned(),
        "mtp.0.attn.wq_b.weight" => "mtp.0.attn.wq_a.weight".to_owned(),
        n => n.to_owned(),
    };
    let odd = with_mtp("deepseek_v4", |n| Some(swap(n)));
    let odd = refused(odd.path());
    assert!(odd.contains("`mtp.0.attn.wq_a.weight`: has shape [512, 64], expected [64, 128]"), "{odd}");
    // Nobody asked: the layer is left alone, whatever it is.
    open_cpu(with_mtp("deepseek_v4", |n| Some(swap(n))).path(), &CpuRunOptions::default()).unwrap();
    // Further layers, and copies of the model's own embedding and head, are not part of it.
    let more = |n: &str| Some(if n == "mtp.0.norm.weight" { "mtp.1.norm.weight".into() } else { n.to_owned() });
    let more = refused(with_mtp("deepseek_v4", more).path());
    assert!(more.contains("`mtp.0.norm.weight`: is missing") && !more.contains("mtp.1"), "{more}");
}

#[test]
fn a_drafter_of_another_kind_is_refused() {
    let dir = whole("deepseek_v4");
    let path = dir.path().join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config["dspark_block_size"] = 5.into();
    std::fs::write(&path, config.to_string()).unwrap();
    let error = open_cpu(dir.path(), &drafting(CpuRunOptions::default())).map(drop).unwrap_err().to_string();
    assert!(error.contains("DSpark") && error.contains("ngram"), "{error}");
    assert!(inspect(dir.path(), CacheDtypes::BF16, 64).unwrap().drafter.unwrap().cost.is_err());
}

#[test]
fn the_layer_is_described_and_planned_for() {
    let dir = whole("deepseek_v4_nvfp4_mixed");
    let found = inspect(dir.path(), CacheDtypes::BF16, 64).unwrap();
    let plain = inspect(&model("deepseek_v4_nvfp4_mixed"), CacheDtypes::BF16, 64).unwrap();
    assert_eq!((&found.cache, found.weights), (&plain.cache, plain.weights), "nobody asked for it");
    assert!(plain.drafter.is_none());
    let drafter = found.drafter.unwrap();
    let cost = drafter.cost.unwrap();
    assert!(cost.weights > 300_000 && cost.kv_bytes_per_token > 0.0, "{cost:?}");
    // As in the file, but for MXFP4's scales, which become NVFP4's twice as many; a projection whose groups cut through FP8 blocks and
    // which is F32 therefore; and vectors.
    let (scales, cut, vectors) = (8 * 3 * 256, 128 * 256 * 3, 8_192);
    let expected = drafter.share.bytes as usize + scales + cut;
    assert!((expected..expected + vectors).contains(&cost.weights), "{} for {expected}", cost.weights);
    // What a config alone declares is what building the model declares, and what a checkpoint holds.
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let config = checkpoint.config();
    let options =
        ModelOptions { dtypes: CacheDtypes::FP8, simulate: true, draft_tokens: DRAFTS, mtp: true, block_tokens: 256 };
    let run =
        CpuRunOptions { dtypes: options.dtypes, block_tokens: 256, blocks: 4, ..drafting(CpuRunOptions::default()) };
    assert_eq!(cache_spec(config, options).unwrap(), open_cpu(dir.path(), &run).unwrap().model().cache);
    let asked: Vec<String> =
        survey(config, true).into_iter().map(|a| a.name).filter(|n| n.starts_with("mtp.")).collect();
    let of_weight = |n: &String| checkpoint.tensor(n).or_else(|| checkpoint.tensor(&format!("{n}.weight"))).is_some();
    assert!(asked.len() > 40 && asked.iter().all(of_weight), "{asked:?}");
    let weights = Weights::of(config, WeightFormat::Mxfp4, true);
    assert_eq!(weights.drafting().bytes as u64, drafter.share.bytes);
    assert_eq!(weights.drafting().parameters as u64, drafter.share.parameters);
}
