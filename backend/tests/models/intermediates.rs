//! What happens inside: residual streams, mixing numbers, router logits, every expert and every index choice.

use crate::golden::{Golden, Prompt, distance, model};
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

#[test]
fn deepseek_v4() {
    let golden = Golden::read("deepseek_v4");
    let mut worst = 0f32;
    for p in &golden.prompts {
        let (probe, _) = probe::run(&model("deepseek_v4"), &p.ids, None);
        worst = worst.max(check_experts(&golden, p, &probe, 2));
        check_selections(&golden, p, &probe, 4);
        for (i, ((input, mix), streams)) in probe.inputs.iter().zip(&probe.streams).enumerate() {
            let (layer, part) = (i / 2, ["attn", "ffn"][i % 2]);
            let name = |what: &str| format!("{}.L{layer}.{what}", p.name);
            let cut = |from: usize, n: usize| at(mix, p).iter().map(|r| r[from..][..n].to_vec()).collect::<Vec<_>>();
            worst = worst.max(compare(&golden, &name(&format!("{part}_hc_collapsed")), &at(input, p)));
            worst = worst.max(compare(&golden, &name(&format!("{part}_hc_post")), &cut(0, 4)));
            worst = worst.max(compare(&golden, &name(&format!("{part}_hc_comb")), &cut(4, 16)));
            if part == "attn" {
                worst = worst.max(compare(&golden, &name("mid"), &at(streams, p)));
            } else {
                // Row 0 of `hidden` is the embedding.
                let hidden = golden.rows(&format!("{}.hidden", p.name)).concat();
                let one = hidden.len() / 5;
                worst = worst.max(distance(&at(streams, p).concat(), &hidden[(layer + 1) * one..][..one]));
            }
        }
    }
    println!("deepseek_v4 intermediates: largest difference {worst:e}");
    assert!(worst <= TOLERANCE, "{worst}");
}

#[test]
fn qwen3_moe_experts() {
    let golden = Golden::read("qwen3moe");
    for p in &golden.prompts {
        let (probe, _) = probe::run(&model("qwen3moe"), &p.ids, None);
        let worst = check_experts(&golden, p, &probe, 2);
        assert!(worst <= TOLERANCE, "{worst}");
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
