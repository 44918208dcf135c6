//! Quantizing what is quantized already (FP8, MXFP4), going on after a kill, and staying small in memory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test, in its helpers too")]

mod stored;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sluicegate_backend::weights::import::{Options, Target, import};
use sluicegate_backend::weights::{Checkpoint, Tensor};
use sluicegate_kernels::fp8::e4m3_to_f32;
use sluicegate_kernels::nvfp4::{self, E2M1};
use stored::{Stored, llama, stored, write};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models").join(name)
}

fn tensors(dir: &Path) -> BTreeMap<String, Tensor> {
    Checkpoint::open(dir).unwrap().tensors().map(|t| (t.name().to_owned(), t.clone())).collect()
}

fn v4() -> Value {
    serde_json::from_slice(&std::fs::read(golden("deepseek_v4").join("config.json")).unwrap()).unwrap()
}

/// Writes a folder, quantizes it, and opens the result.
fn quantized(config: &Value, source: &[Stored]) -> (tempfile::TempDir, BTreeMap<String, Tensor>) {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in"), config, source);
    import(&dir.path().join("in"), &dir.path().join("out"), Target::Nvfp4, &mut |_, _| {}).unwrap();
    let all = tensors(&dir.path().join("out"));
    (dir, all)
}

fn decoded(all: &BTreeMap<String, Tensor>, prefix: &str) -> Vec<f32> {
    let part = |name: &str| &all[&format!("{prefix}.{name}")];
    let mut out = vec![0f32; part("weight").bytes().len() * 2];
    let global = part("weight_scale_2").scalar_f32().unwrap();
    nvfp4::dequantize(part("weight").bytes(), part("weight_scale").bytes(), global, &mut out);
    out
}

const EXPERT: &str = "layers.0.ffn.experts.3";

fn mxfp4(name: &str, codes: &[u8], scales: &[u8]) -> [Stored; 2] {
    let rows = scales.len() / 2;
    [
        stored(&format!("{EXPERT}.{name}.weight"), "I8", &[rows, 32], codes),
        stored(&format!("{EXPERT}.{name}.scale"), "F8_E8M0", &[rows, 2], scales),
    ]
}

fn values(codes: &[u8], scales: &[u8]) -> Vec<f32> {
    let code = codes.iter().flat_map(|b| [b & 15, b >> 4]);
    code.enumerate().map(|(i, c)| E2M1[c as usize] * (f32::from(scales[i / 32]) - 127.0).exp2()).collect()
}

#[test]
fn mxfp4_experts_lose_nothing() {
    let codes = |seed: usize| (0..128).map(|i| ((i * 73 + seed * 31) % 256) as u8).collect::<Vec<u8>>();
    let (gate, up, down) = (codes(1), codes(2), codes(3));
    let scales = [[120u8, 121, 118, 119, 122, 117, 125, 124], [110, 127, 126, 120, 121, 122, 123, 124], [100; 8]];
    let mut source: Vec<Stored> = Vec::new();
    for (name, codes, scales) in [("w1", &gate, scales[0]), ("w3", &up, scales[1]), ("w2", &down, scales[2])] {
        source.extend(mxfp4(name, codes, &scales));
    }
    // FP8 projections of DeepSeek-V4 stay as NVIDIA publishes them, and so does what the config says of them.
    source.push(stored("layers.0.attn.wq_a.weight", "F8_E4M3", &[64, 128], vec![0x38; 64 * 128]));
    source.push(stored("layers.0.attn.wq_a.scale", "F8_E8M0", &[1, 1], [127]));
    let mut config = v4();
    config["quantization_config"] = json!({"quant_method": "fp8", "weight_block_size": [128, 128]});
    let (dir, all) = quantized(&config, &source);
    for (name, codes, scales) in [("w1", &gate, scales[0]), ("w3", &up, scales[1]), ("w2", &down, scales[2])] {
        let prefix = format!("{EXPERT}.{name}");
        assert_eq!(all[&format!("{prefix}.weight")].bytes(), codes);
        assert_eq!(decoded(&all, &prefix), values(codes, &scales), "{name}");
        assert!(!all.contains_key(&format!("{prefix}.scale")));
    }
    // Gate and up share the tensor scale that the larger one needs: 2^(127 - 127 - 8).
    let global = |name: &str| all[&format!("{EXPERT}.{name}.weight_scale_2")].scalar_f32().unwrap();
    assert_eq!((global("w1"), global("w3"), global("w2")), (2f32.powi(-8), 2f32.powi(-8), 2f32.powi(100 - 127 - 8)));
    assert_eq!(all["layers.0.attn.wq_a.weight"].bytes().len(), 64 * 128);
    assert!(all.contains_key("layers.0.attn.wq_a.scale"));
    let config: Value = serde_json::from_slice(&std::fs::read(dir.path().join("out/config.json")).unwrap()).unwrap();
    let said = &config["quantization_config"];
    assert_eq!((&said["quant_method"], &said["moe_quant_algo"]), (&json!("fp8"), &json!("NVFP4")));
    assert_eq!(said["quant_algo"], "MIXED_PRECISION");
}

#[test]
fn a_span_too_wide_for_the_cast_is_rounded_by_the_recipe() {
    let codes: Vec<u8> = (0..128).map(|i| (i * 41 % 256) as u8).collect();
    let scales = [100u8, 120, 101, 119, 102, 118, 103, 117];
    let source: Vec<Stored> = mxfp4("w2", &codes, &scales).into();
    let (_dir, all) = quantized(&v4(), &source);
    let exact = values(&codes, &scales);
    let global = nvfp4::global_scale(exact.iter().fold(0f32, |m, v| m.max(v.abs())));
    let (expected, _) = nvfp4::quantize(&exact, global).unwrap();
    assert_eq!(all[&format!("{EXPERT}.w2.weight")].bytes(), &expected);
}

#[test]
fn fp8_layers_become_what_their_numbers_become() {
    let codes: Vec<u8> =
        (0..192 * 160).map(|i| (i * 89 % 256) as u8).map(|c| if c & 0x7f == 0x7f { 0 } else { c }).collect();
    for (scale, dtype, bytes, factors) in [
        (
            "weight_scale_inv",
            "F32",
            [0.5f32, 0.01, 3.0, 1.0].iter().flat_map(|v| v.to_le_bytes()).collect(),
            [0.5, 0.01, 3.0, 1.0],
        ),
        ("scale", "F8_E8M0", vec![126u8, 120, 128, 127], [0.5, 2f32.powi(-7), 2.0, 1.0]),
    ] {
        let name = "model.layers.0.mlp.down_proj";
        let source = [
            stored(&format!("{name}.weight"), "F8_E4M3", &[192, 160], codes.clone()),
            stored(&format!("{name}.{scale}"), dtype, &[2, 2], bytes),
        ];
        let (_dir, all) = quantized(&llama(192, 160), &source);
        let factor = |i: usize| factors[i / 160 / 128 * 2 + i % 160 / 128];
        let exact: Vec<f32> = codes.iter().enumerate().map(|(i, &c)| e4m3_to_f32(c) * factor(i)).collect();
        let global = nvfp4::global_scale(exact.iter().fold(0f32, |m, v| m.max(v.abs())));
        let (weight, scales) = nvfp4::quantize(&exact, global).unwrap();
        assert_eq!(all[&format!("{name}.weight")].bytes(), &weight);
        assert_eq!(all[&format!("{name}.weight_scale")].bytes(), &scales);
        assert!(!all.contains_key(&format!("{name}.{scale}")));
    }
}

/// Small files, so that a tiny model has several.
const SHARDED: Options = Options { target: Target::Nvfp4, max_shard_bytes: 60_000 };

fn files(dir: &Path) -> BTreeMap<String, (u64, Vec<u8>)> {
    let file = |f: std::fs::DirEntry| {
        let name = f.file_name().into_string().unwrap();
        (name, (f.metadata().unwrap().ino(), std::fs::read(f.path()).unwrap()))
    };
    std::fs::read_dir(dir).unwrap().map(|f| file(f.unwrap())).collect()
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, killed) = (dir.path().join("whole"), dir.path().join("killed"));
    import(&golden("llama"), &whole, SHARDED, &mut |_, _| {}).unwrap();
    let finished = files(&whole);
    assert!(finished.keys().filter(|n| n.ends_with(".safetensors")).count() >= 4, "{:?}", finished.keys());
    // Killed again and again, each time a little later.
    for share in [30, 55, 80] {
        // Unwinds without a word, as a kill would end it.
        let mut stop = |done: u64, all: u64| {
            if done * 100 >= all * share {
                std::panic::resume_unwind(Box::new("killed"));
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| import(&golden("llama"), &killed, SHARDED, &mut stop)));
        assert!(outcome.is_err(), "it was meant to be killed at {share} %");
        let so_far = files(&killed);
        assert!(!so_far.contains_key("config.json") && so_far.keys().any(|n| n.ends_with(".partial")), "{share} %");
        assert!(Checkpoint::open(&killed).is_err(), "a half-written folder is no model");
    }
    let before = files(&killed);
    import(&golden("llama"), &killed, SHARDED, &mut |_, _| {}).unwrap();
    let after = files(&killed);
    let kept = before.iter().filter(|(n, (inode, _))| n.ends_with(".safetensors") && after[*n].0 == *inode).count();
    assert!(kept >= 2, "finished files are kept, not written again");
    let content = |files: &BTreeMap<String, (u64, Vec<u8>)>| {
        files.iter().map(|(n, (_, bytes))| (n.clone(), bytes.clone())).collect::<BTreeMap<_, _>>()
    };
    assert!(content(&after) == content(&finished), "the result is that of an undisturbed run");
    // Cut into files or not, it is the same model.
    let single = dir.path().join("single");
    import(&golden("llama"), &single, Target::Nvfp4, &mut |_, _| {}).unwrap();
    let (cut, whole) = (tensors(&killed), tensors(&single));
    assert!(cut.keys().eq(whole.keys()) && cut.values().zip(whole.values()).all(|(a, b)| a.bytes() == b.bytes()));
}

/// Memory of its own, in KiB: files that are mapped don't count.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_large_model_streams_through_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (rows, cols) = (8_192usize, 4_096usize);
    // 64 MB of zeros, which the file system does not store.
    let source = [stored("model.layers.0.mlp.down_proj.weight", "BF16", &[rows, cols], Vec::new())];
    write(&dir.path().join("in"), &llama(rows, cols), &source);
    let path = dir.path().join("in/model.safetensors");
    let header = std::fs::read(&path).unwrap();
    let mut header: Value = serde_json::from_slice(&header[8..]).unwrap();
    header["model.layers.0.mlp.down_proj.weight"]["data_offsets"] = json!([0, rows * cols * 2]);
    let header = header.to_string();
    std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len((8 + header.len() + rows * cols * 2) as u64).unwrap();
    let before = anonymous();
    let (mut most, mut steps) = (before, 0);
    import(&dir.path().join("in"), &dir.path().join("out"), Target::Nvfp4, &mut |_, _| {
        most = most.max(anonymous());
        steps += 1;
    })
    .unwrap();
    assert!(steps > 16, "progress is shown within a tensor");
    assert!(most - before < 24 << 10, "{} KiB beyond what there was", most - before);
}
