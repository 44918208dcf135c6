//! The engine on real architectures: sixty requests under every kind of load give the tokens that each gives alone.

use std::path::Path;
use std::sync::Arc;

use sluicegate_backend::api::{GenerateRequest, Sampling};
use sluicegate_backend::models::CacheDtypes;
use sluicegate_backend::run::{CpuRunOptions, open_cpu};
use sluicegate_backend::verify;

use crate::golden::{Golden, model};

/// Requests that share prefixes, end within, at and after groups of 4 and 128 tokens, and sample at random.
fn requests(set: &str, count: usize) -> Vec<GenerateRequest> {
    let golden = Golden::read(set);
    let long: Vec<u32> = golden.prompts.iter().rev().flat_map(|p| p.ids.clone()).collect();
    (0..count)
        .map(|i| {
            let len = if i % 10 == 0 { 120 + i * 3 } else { 1 + i * 7 % 50 };
            let mut prompt: Vec<u32> = long.iter().copied().cycle().take(len).collect();
            // Half of them part from the common prefix.
            if i % 2 == 1 {
                let last = prompt.len() - 1;
                prompt[last] = 3 + (i as u32 * 5) % 500;
            }
            GenerateRequest {
                id: Arc::from(format!("r{i}")),
                prompt,
                sampling: Sampling { temperature: (i % 3) as f32 * 0.5, seed: i as u64, ..Sampling::default() },
                stop_ids: Vec::new(),
                max_tokens: 10,
                logprobs: Some(1),
                grammar: None,
                priority: 0,
                deadline: None,
                share: i as u64 % 3,
            }
        })
        .collect()
}

pub(crate) fn check(set: &str, dir: &Path, count: usize, options: CpuRunOptions) {
    let options = CpuRunOptions { block_tokens: 128, blocks: 160, rows: 256, ..options };
    let mut make = || match open_cpu(dir, &options) {
        Ok(executor) => Ok(Box::new(executor) as Box<dyn sluicegate_backend::exec::Executor>),
        Err(e) => Err(e.to_string()),
    };
    let reports = verify::run(&requests(set, count), count, &mut make, &mut |_| {}).expect("the engine runs");
    let dir = dir.display();
    for r in &reports {
        assert!(r.differences.is_empty(), "{dir}, {}: {:?}", r.mode.name, r.differences);
    }
    let sum = |of: &dyn Fn(&verify::ModeReport) -> u64| reports.iter().map(of).sum::<u64>();
    assert!(sum(&|r| r.cached_tokens) > 0 && sum(&|r| r.preempted) > 0, "{dir}: nothing was reused or preempted");
    assert!(sum(&|r| r.loaded_blocks) > 0, "{dir}: nothing came back from the host");
}

#[test]
fn deepseek_v4() {
    check("deepseek_v4_mixed", &model("deepseek_v4_nvfp4_mixed"), 60, CpuRunOptions::default());
}

/// 8-bit rows, 4-bit index keys, drafts that may be wrong.
#[test]
fn deepseek_v4_in_the_formats_it_is_served_with() {
    let options = CpuRunOptions { dtypes: CacheDtypes::FP8, draft_tokens: 4, ..CpuRunOptions::default() };
    check("deepseek_v4_mixed", &model("deepseek_v4_nvfp4_mixed"), 30, options);
}

#[test]
fn deepseek_v4_in_reference_arithmetic() {
    check("deepseek_v4_mixed", &model("deepseek_v4_nvfp4_mixed"), 16, CpuRunOptions::reference());
}

#[test]
fn qwen3_moe() {
    check("qwen3moe", &model("qwen3moe"), 60, CpuRunOptions::default());
}
