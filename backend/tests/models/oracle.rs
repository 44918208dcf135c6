//! Every golden set in reference arithmetic: logits within 5e-4 of the oracle's double-precision ones, every greedy token equal.

use std::path::Path;

use sluicegate_backend::run::CpuRunOptions;

use crate::drive::{decode, logits, open};
use crate::golden::{Golden, argmax, distance, llama3_rope, model};

/// What an f32 executor may differ by; see the golden's README.
pub(crate) const TOLERANCE: f32 = 5e-4;

/// Reference arithmetic, in blocks that every model can use.
fn options() -> CpuRunOptions {
    CpuRunOptions { block_tokens: 128, ..CpuRunOptions::reference() }
}

pub(crate) fn check(set: &str, dir: &Path) {
    let golden = Golden::read(set);
    let mut runner = open(dir, options());
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
    // Together: as many prompts as fit one step.
    let fit = |sum: &mut usize, n: usize| {
        *sum += n;
        (*sum <= 160).then_some(())
    };
    let short: Vec<_> = golden.prompts.iter().scan(0, |sum, p| fit(sum, p.ids.len()).map(|()| p)).collect();
    let prompts: Vec<_> = short.iter().map(|p| p.ids.clone()).collect();
    let expected: Vec<_> = short.iter().map(|p| p.greedy.clone()).collect();
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
    check("llama_rope3", llama3_rope().path());
}

#[test]
fn qwen3() {
    check("qwen3", &model("qwen3"));
}

#[test]
fn qwen3_moe() {
    check("qwen3moe", &model("qwen3moe"));
}

#[test]
fn deepseek_v4_bf16() {
    check("deepseek_v4", &model("deepseek_v4"));
}

#[test]
fn deepseek_v4_nvfp4() {
    check("deepseek_v4_nvfp4", &model("deepseek_v4_nvfp4_modelopt"));
}

#[test]
fn deepseek_v4_nvfp4_experts_and_fp8_projections() {
    check("deepseek_v4_mixed", &model("deepseek_v4_nvfp4_mixed"));
}
