//! Llama in reference arithmetic: logits within 5e-4 of the oracle's double-precision ones, every greedy token equal.

use sluicegate_backend::run::CpuRunOptions;

use crate::drive::{decode, logits, open};
use crate::golden::{Golden, argmax, distance, model};

/// What an f32 executor may differ by; see the golden's README.
const TOLERANCE: f32 = 5e-4;

fn check(set: &str, dir: &std::path::Path) {
    let golden = Golden::read(set);
    let mut runner = open(dir, CpuRunOptions::reference());
    let table: Vec<u32> = (0..32).rev().collect();
    let mut worst = 0f32;
    for p in &golden.prompts {
        let mut tokens = p.ids.clone();
        tokens.extend(&p.greedy[..p.greedy.len() - 1]);
        let found = logits(&mut runner, &tokens, &[160], &table);
        for (expected, &position) in golden.rows(&format!("{}.logits64", p.name)).iter().zip(&p.positions) {
            worst = worst.max(distance(&found[position], expected));
        }
        let decoded = golden.rows(&format!("{}.decode_logits64", p.name));
        assert_eq!(decoded.len(), p.greedy.len());
        for (i, (expected, &token)) in decoded.iter().zip(&p.greedy).enumerate() {
            let row = &found[p.ids.len() - 1 + i];
            worst = worst.max(distance(row, expected));
            assert_eq!(argmax(row), token, "{set} {}: greedy token {i}", p.name);
        }
    }
    println!("{set}: largest difference {worst:e}");
    assert!(worst <= TOLERANCE, "{set}: {worst}");
    let prompts: Vec<_> = golden.prompts.iter().map(|p| p.ids.clone()).collect();
    let expected: Vec<_> = golden.prompts.iter().map(|p| p.greedy.clone()).collect();
    assert_eq!(decode(&mut runner, &prompts, 24), expected, "{set}: decoded together");
}

#[test]
fn llama_bf16() {
    check("llama", &model("llama"));
}

#[test]
fn llama_nvfp4_in_both_layouts() {
    check("llama_nvfp4", &model("llama_nvfp4_modelopt"));
    check("llama_nvfp4", &model("llama_nvfp4_ct"));
}

#[test]
fn llama_with_llama3_rope_scaling() {
    let dir = tempfile::tempdir().unwrap();
    let from = model("llama");
    std::fs::copy(from.join("config_llama3rope.json"), dir.path().join("config.json")).unwrap();
    std::fs::copy(from.join("model.safetensors"), dir.path().join("model.safetensors")).unwrap();
    check("llama_rope3", dir.path());
}
