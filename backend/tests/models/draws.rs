//! Greedy rows, whose head is narrowed to what could be largest, get the tokens that the sampler finds in whole rows of logits.

use std::sync::Arc;

use sluicegate_backend::api::Sampling;
use sluicegate_backend::exec::{Executor, Plan, SampleRow, Sampled};
use sluicegate_backend::run::{CpuRunOptions, Runner};
use sluicegate_kernels::cpu::Cpu;

use crate::drive::{greedy, open, plan};
use crate::smollm2::{folder, golden};

const VOCAB: u32 = 49_152;

/// A row of any kind: plain, masked (to few tokens, to none, to half of them), drawn, biased, penalized.
fn wish(row: u32, position: u32) -> SampleRow {
    let plain = greedy(row, position);
    let masked = |word: u32| Some((0..VOCAB / 32).map(|i| word & i.wrapping_mul(0x9e37_79b9)).collect());
    let with = |sampling| Arc::new(Sampling { temperature: 0.0, ..sampling });
    match row % 9 {
        2 => SampleRow { mask: masked(0x8000_0001), ..plain },
        3 => SampleRow { mask: masked(0), ..plain },
        4 => SampleRow { mask: masked(!0), ..plain },
        5 => SampleRow { sampling: Arc::new(Sampling { temperature: 0.8, seed: 3, ..Sampling::default() }), ..plain },
        6 => SampleRow { sampling: with(Sampling { logit_bias: vec![(5, 100.0)], ..Sampling::default() }), ..plain },
        7 => SampleRow {
            sampling: with(Sampling { repetition_penalty: 1.5, ..Sampling::default() }),
            history: Some((0..VOCAB).step_by(2).collect()),
            ..plain
        },
        8 => SampleRow { sampling: Arc::new(Sampling { temperature: 1.0, top_k: 1, ..Sampling::default() }), ..plain },
        _ => plain,
    }
}

fn ids(runner: &mut Runner<Cpu>, plan: &Plan) -> Vec<u32> {
    let mut drawn: Vec<Sampled> = Vec::new();
    runner.run(plan, &mut drawn).expect("a plan runs");
    drawn.iter().map(|s| s.id).collect()
}

#[test]
fn what_is_narrowed_is_what_the_sampler_finds() {
    let table: Vec<u32> = (0..10).collect();
    for threads in [1, 2] {
        let mut runner = open(&folder("SmolLM2-135M-Instruct"), CpuRunOptions { threads, ..CpuRunOptions::default() });
        for prompt in golden().prompts.into_iter().take(3) {
            let tokens: Vec<u32> = prompt.ids.iter().chain(&prompt.greedy).copied().take(150).collect();
            for rows in [1, 4, 5, tokens.len()] {
                let mut plan = plan(&tokens[..rows], 0, &table);
                for kinds in [wish, greedy] {
                    plan.samples.iter_mut().for_each(|s| *s = kinds(s.row, s.position));
                    let found = ids(&mut runner, &plan);
                    // Whoever asks for log probabilities is drawn for by the sampler.
                    plan.samples.iter_mut().for_each(|s| s.logprobs = Some(0));
                    assert_eq!(found, ids(&mut runner, &plan), "{}, {rows} rows, {threads} threads", prompt.name);
                }
            }
        }
    }
}
