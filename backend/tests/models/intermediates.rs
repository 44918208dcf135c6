//! What happens inside: residual streams, mixing numbers, router logits, every expert and every index choice.

use crate::golden::{Golden, Prompt, distance, llama3_rope, model};
use crate::oracle::TOLERANCE;
use crate::probe::{self, Probe};

/// The rows of the stored positions.
fn at<T: Clone>(rows: &[T], p: &Prompt) -> Vec<T> {
    p.positions.iter().map(|&i| rows[i].clone()).collect()
}

/// Largest distance between rows and a tensor of the golden.
fn compare(golden: &Golden, name: &str, rows: &[Vec<f32>]) -> f32 {
    distance(&rows.concat(), &golden.rows(name).concat())
}

fn check_experts(golden: &Golden, p: &Prompt, probe: &Probe, k: usize) -> f32 {
    let mut worst = 0f32;
    for (layer, (logits, ids, weights)) in probe.routes.iter().enumerate() {
        let name = |what: &str| format!("{}.L{layer}.{what}", p.name);
        worst = worst.max(compare(golden, &name("router_logits"), &at(logits, p)));
        let (expected, factors) = (golden.integers(&name("experts")), golden.rows(&name("expert_weights")));
        for ((row, expected), factors) in p.positions.iter().zip(expected).zip(factors) {
            // The order of the oracle's experts means nothing; ours are ascending.
            let mut pairs: Vec<(i32, f32)> = expected.into_iter().zip(factors).collect();
            pairs.sort_by_key(|x| x.0);
            for ((e, w), i) in pairs.into_iter().zip(row * k..) {
                assert_eq!(ids[i], e as u32, "{} layer {layer} position {row}", p.name);
                worst = worst.max((weights[i] - w).abs());
            }
        }
    }
    worst
}

fn check_selections(golden: &Golden, p: &Prompt, probe: &Probe, k: usize) {
    for (selection, layer) in probe.selections.iter().zip([1, 3]) {
        let expected = golden.integers(&format!("{}.L{layer}.index_topk", p.name));
        for (row, expected) in p.positions.iter().zip(expected) {
            let found: Vec<i32> = selection[row * k..][..k].iter().map(|i| *i as i32).filter(|i| *i >= 0).collect();
            let expected: Vec<i32> = expected.into_iter().filter(|i| *i >= 0).collect();
            assert_eq!(found, expected, "{} layer {layer} position {row}", p.name);
        }
    }
}

/// What goes into each sublayer and what comes out, before and after the whole stack.
fn check_sublayers(golden: &Golden, p: &Prompt, probe: &Probe) -> f32 {
    let mut worst = 0f32;
    let layers = probe.outputs.len() / 2;
    for (i, output) in probe.outputs.iter().enumerate() {
        let name = |what: &str| format!("{}.L{}.{}_{what}", p.name, i / 2, ["attn", "ffn"][i % 2]);
        worst = worst.max(compare(golden, &name("in"), &at(&probe.norms[i].1, p)));
        worst = worst.max(compare(golden, &name("out"), &at(output, p)));
    }
    assert_eq!(probe.norms.len(), 2 * layers + 1, "a norm for each sublayer, and the last one");
    let (_, last) = probe.norms.last().expect("the last one");
    worst.max(compare(golden, &format!("{}.final_norm", p.name), &at(last, p)))
}

/// The residual stream in front of each layer and behind the last.
fn check_residual(golden: &Golden, p: &Prompt, probe: &Probe) -> f32 {
    let hidden = golden.rows(&format!("{}.hidden", p.name)).concat();
    let layers = probe.outputs.len() / 2;
    let one = hidden.len() / (layers + 1);
    let mut worst = 0f32;
    for (layer, (x, _)) in probe.norms.iter().step_by(2).enumerate() {
        worst = worst.max(distance(&at(x, p).concat(), &hidden[layer * one..][..one]));
    }
    worst
}

fn check_compressed(golden: &Golden, p: &Prompt, probe: &Probe) -> f32 {
    let mut worst = 0f32;
    // Each layer's own rows; those of the indexers, which come after them at ratio 4, are not stored.
    for (rows, layer) in [0, 2, 3].map(|i| &probe.compressed[i]).into_iter().zip(1..) {
        let stored = golden.rows_or_none(&format!("{}.L{layer}.compressed_kv", p.name));
        let Some(expected) = stored else {
            assert!(rows.is_empty(), "{} layer {layer} has rows that the oracle has not", p.name);
            continue;
        };
        assert_eq!(rows.len(), expected.len(), "{} layer {layer}", p.name);
        worst = worst.max(distance(&rows.concat(), &expected.concat()));
    }
    worst
}

fn check_streams(golden: &Golden, p: &Prompt, probe: &Probe) -> f32 {
    let mut worst = 0f32;
    // All streams begin as the embedding.
    let hidden = golden.rows(&format!("{}.hidden", p.name)).concat();
    let one = hidden.len() / 5;
    for (i, ((input, mix), streams)) in probe.inputs.iter().zip(&probe.streams).enumerate() {
        let (layer, part) = (i / 2, ["attn", "ffn"][i % 2]);
        let name = |what: &str| format!("{}.L{layer}.{what}", p.name);
        let cut = |from: usize, n: usize| at(mix, p).iter().map(|r| r[from..][..n].to_vec()).collect::<Vec<_>>();
        worst = worst.max(compare(golden, &name(&format!("{part}_hc_collapsed")), &at(input, p)));
        worst = worst.max(compare(golden, &name(&format!("{part}_hc_post")), &cut(0, 4)));
        worst = worst.max(compare(golden, &name(&format!("{part}_hc_comb")), &cut(4, 16)));
        if part == "attn" {
            worst = worst.max(compare(golden, &name("mid"), &at(streams, p)));
        } else {
            worst = worst.max(distance(&at(streams, p).concat(), &hidden[(layer + 1) * one..][..one]));
        }
    }
    worst
}

fn check_v4(set: &str, dir: &str) {
    let golden = Golden::read(set);
    let mut worst = 0f32;
    for p in &golden.prompts {
        let (probe, _) = probe::run(&model(dir), &p.ids, None);
        worst = worst.max(check_experts(&golden, p, &probe, 2));
        check_selections(&golden, p, &probe, 4);
        worst = worst.max(check_streams(&golden, p, &probe));
        worst = worst.max(check_sublayers(&golden, p, &probe));
        worst = worst.max(check_compressed(&golden, p, &probe));
    }
    println!("{dir} intermediates: largest difference {worst:e}");
    assert!(worst <= TOLERANCE, "{dir}: {worst}");
}

#[test]
fn deepseek_v4() {
    check_v4("deepseek_v4", "deepseek_v4");
}

#[test]
fn deepseek_v4_quantized() {
    check_v4("deepseek_v4_nvfp4", "deepseek_v4_nvfp4_modelopt");
    check_v4("deepseek_v4_mixed", "deepseek_v4_nvfp4_mixed");
}

#[test]
fn grouped_query_models() {
    let scaled = llama3_rope();
    for (set, dir) in [
        ("llama", model("llama")),
        ("llama_rope3", scaled.path().to_owned()),
        ("llama_nvfp4", model("llama_nvfp4_ct")),
        ("qwen3", model("qwen3")),
        ("qwen3moe", model("qwen3moe")),
    ] {
        let golden = Golden::read(set);
        let mut worst = 0f32;
        for p in &golden.prompts {
            let (probe, _) = probe::run(&dir, &p.ids, None);
            if set == "qwen3moe" {
                worst = worst.max(check_experts(&golden, p, &probe, 2));
            }
            worst = worst.max(check_sublayers(&golden, p, &probe)).max(check_residual(&golden, p, &probe));
        }
        println!("{set} intermediates: largest difference {worst:e}");
        assert!(worst <= TOLERANCE, "{set}: {worst}");
    }
}

/// Eighteen deliberate mistakes, each of which the comparison of logits must see.
#[test]
fn mistakes_are_seen() {
    let golden = Golden::read("deepseek_v4");
    for (mistake, name) in probe::MISTAKES {
        let p = golden.prompts.iter().find(|p| p.name == name).unwrap();
        let error = |mistake| {
            let (_, logits) = probe::run(&model("deepseek_v4"), &p.ids, mistake);
            compare(&golden, &format!("{name}.logits64"), &at(&logits, p))
        };
        let (right, wrong) = (error(None), error(Some(mistake)));
        println!("{mistake:?}: {wrong:.3}");
        assert!(right <= TOLERANCE && wrong > 100.0 * TOLERANCE, "{mistake:?}: {right} {wrong}");
    }
}
