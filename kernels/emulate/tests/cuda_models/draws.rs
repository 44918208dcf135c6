//! Tokens drawn on the GPU are those that the host's sampler draws from the same logits, row by row.

use std::cell::RefCell;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sluicegate_backend::api::Sampling;
use sluicegate_backend::exec::{Executor, Plan, PlanSequence, SampleRow, Sampled};
use sluicegate_backend::run::{CudaRunOptions, Runner, open_cuda};
use sluicegate_kernels::cuda::device::Cuda;

use crate::{kernels, model, with_driver};

const ROWS: u32 = 12;
const VOCAB: u32 = 512;

/// A row's wishes: parameters, history and its prompt's length, mask, whether log probabilities are asked.
type Wish = (Sampling, Option<Vec<u32>>, Option<Vec<u32>>, bool);

fn sampling() -> impl Strategy<Value = Sampling> {
    let temperature = prop_oneof![Just(0.0_f32), 0.1..2.0_f32];
    let top_k = prop_oneof![Just(0_u32), Just(1), 2..40_u32, Just(VOCAB)];
    let top_p = prop_oneof![Just(1.0_f32), 0.05..1.0_f32];
    let min_p = prop_oneof![Just(0.0_f32), 0.001..0.5_f32];
    let penalty = || prop_oneof![Just(0.0_f32), -1.0..2.0_f32];
    let repetition = prop_oneof![Just(1.0_f32), 0.5..2.0_f32];
    let bias = prop::collection::vec((0..VOCAB + 5, -10.0..10.0_f32), 0..4);
    (temperature, top_k, top_p, min_p, (penalty(), penalty(), repetition), bias, any::<u64>()).prop_map(
        |(temperature, top_k, top_p, min_p, (presence_penalty, frequency_penalty, repetition_penalty), bias, seed)| {
            Sampling {
                temperature,
                top_k,
                top_p,
                min_p,
                presence_penalty,
                frequency_penalty,
                repetition_penalty,
                logit_bias: bias,
                seed,
            }
        },
    )
}

fn wish() -> impl Strategy<Value = Wish> {
    let history = prop::option::of(prop::collection::vec(0..VOCAB, 0..60));
    // A few admitted tokens, sometimes none.
    let mask = prop::collection::vec(prop_oneof![Just(0_u32), any::<u32>()], VOCAB.div_ceil(32) as usize);
    (sampling(), history, prop::option::of(mask), prop::bool::weighted(0.2))
}

/// A step of one sequence of [`ROWS`] tokens, every row of which is drawn from.
fn plan(wishes: &[Wish], all_here: bool) -> Plan {
    let row = |(i, (sampling, history, mask, logprobs)): (u32, &Wish)| SampleRow {
        row: i,
        sampling: Arc::new(sampling.clone()),
        position: i + 1,
        prompt_len: history.as_ref().map_or(0, |h| h.len() as u32 / 2),
        history: history.as_deref().map(Arc::from),
        mask: mask.as_deref().map(Arc::from),
        logprobs: (*logprobs || all_here).then_some(2),
    };
    Plan {
        tokens: (0..ROWS).map(|i| 2 + (i * 37 + 303) % 500).collect(),
        sequences: vec![PlanSequence { row: 0, rows: ROWS, start: 0, table: 0, table_len: 1, slot: 0 }],
        block_tables: vec![3],
        samples: (0..).zip(wishes).map(row).collect(),
    }
}

fn run(gpu: &mut Runner<Cuda>, plan: &Plan) -> Vec<Sampled> {
    let mut out = Vec::new();
    gpu.run(plan, &mut out).expect("a plan runs");
    out
}

#[test]
fn a_gpu_draws_what_the_host_draws() {
    with_driver(13, || {
        let options = CudaRunOptions { blocks: 16, sequences: 16, rows: 16, kernels: kernels(), ..Default::default() };
        let gpu = open_cuda(&model("llama"), &options).expect("a golden model opens");
        assert_eq!(gpu.model().vocab_size, VOCAB);
        let gpu = RefCell::new(gpu);
        let mut runner = TestRunner::new(ProptestConfig::with_cases(8));
        let wishes = prop::collection::vec(wish(), ROWS as usize);
        let same = runner.run(&wishes, |wishes| {
            // Who asks for log probabilities is drawn for by the host.
            let here = run(&mut gpu.borrow_mut(), &plan(&wishes, true));
            let there = run(&mut gpu.borrow_mut(), &plan(&wishes, false));
            let ids = |drawn: &[Sampled]| drawn.iter().map(|s| s.id).collect::<Vec<_>>();
            prop_assert_eq!(ids(&there), ids(&here));
            for ((mixed, whole), wish) in there.iter().zip(&here).zip(&wishes) {
                let wanted = if wish.3 { &whole.logprobs } else { &None };
                prop_assert_eq!(&mixed.logprobs, wanted);
            }
            Ok(())
        });
        same.unwrap_or_else(|e| panic!("{e}"));
    });
}
