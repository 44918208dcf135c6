//! SmolLM2 against llama.cpp on the same weights, where `cargo xtask demo-model` has put the model folders.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sluicegate_backend::api::Sampling;
use sluicegate_backend::exec::{Executor, Plan, PlanSequence, SampleRow};
use sluicegate_backend::run::{CpuRunOptions, open_cpu};

use crate::drive::{logits, open};
use crate::fast::compare;

#[derive(Deserialize)]
pub(crate) struct Prompt {
    pub(crate) name: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) greedy: Vec<u32>,
}

#[derive(Deserialize)]
pub(crate) struct Golden {
    pub(crate) prompts: Vec<Prompt>,
}

pub(crate) fn golden() -> Golden {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/smollm2/greedy.json");
    serde_json::from_slice(&std::fs::read(path).expect("the golden")).expect("its JSON")
}

/// A model folder of `models/`, or of where `SLUICEGATE_MODELS` says.
pub(crate) fn folder(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    let dir = std::env::var_os("SLUICEGATE_MODELS").map_or(root, PathBuf::from).join(name);
    assert!(dir.join("config.json").is_file(), "no {}; `cargo xtask demo-model` makes it", dir.display());
    dir
}

/// Greedy tokens of one prompt; like the golden's, they never end the text.
fn generate(runner: &mut impl Executor, prompt: &[u32], steps: usize) -> Vec<u32> {
    let never = runner.model().eos_ids.iter().map(|&id| (id, f32::NEG_INFINITY)).collect();
    let sampling = Arc::new(Sampling { temperature: 0.0, logit_bias: never, ..Sampling::default() });
    let table: Vec<u32> = (0..(prompt.len() + steps).div_ceil(16) as u32).collect();
    let (mut tokens, mut start, mut out, mut drawn) = (prompt.to_vec(), 0, Vec::new(), Vec::new());
    while out.len() < steps {
        let rows = tokens.len() as u32;
        let plan = Plan {
            sequences: vec![PlanSequence { row: 0, rows, start, table: 0, table_len: table.len() as u32, slot: 0 }],
            block_tables: table.clone(),
            samples: vec![SampleRow {
                row: rows - 1,
                sampling: Arc::clone(&sampling),
                position: start + rows,
                history: None,
                prompt_len: 0,
                mask: None,
                logprobs: None,
            }],
            tokens,
        };
        runner.run(&plan, &mut drawn).expect("a plan runs");
        start += rows;
        out.push(drawn[0].id);
        tokens = vec![drawn[0].id];
    }
    out
}

#[test]
fn unquantized_weights_continue_as_llama_cpp_does() {
    let dir = folder("SmolLM2-135M-Instruct-BF16");
    let mut runner = open_cpu(&dir, &CpuRunOptions { blocks: 64, ..CpuRunOptions::reference() }).unwrap();
    for p in golden().prompts {
        assert_eq!(generate(&mut runner, &p.ids, p.greedy.len()), p.greedy, "{}", p.name);
    }
}

#[test]
fn fast_arithmetic_stays_close_on_a_real_model() {
    let dir = folder("SmolLM2-135M-Instruct");
    let (mut reference, mut fast) = (open(&dir, CpuRunOptions::reference()), open(&dir, CpuRunOptions::default()));
    let table: Vec<u32> = (0..10).collect();
    let mut pairs = Vec::new();
    for p in golden().prompts {
        let tokens: Vec<u32> = p.ids.iter().chain(&p.greedy).copied().take(160).collect();
        let a = logits(&mut reference, &tokens, &[160], &table);
        pairs.extend(a.into_iter().zip(logits(&mut fast, &tokens, &[160], &table)));
    }
    let (kl, agree) = compare(&pairs);
    assert!(kl < 0.01, "mean KL {kl}");
    assert!(agree >= 0.95, "argmax agreement {agree}");
}
