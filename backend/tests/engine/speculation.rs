//! Speculative decoding yields what single steps yield; the laws say so for any drafts, and here is that drafts do help.

use proptest::prelude::*;
use sluicegate_backend::api::{GenerateRequest, Sampling};
use sluicegate_backend::draft::{Method, Speculation};
use sluicegate_backend::engine::{Config, Engine, StartError, Workers};

use crate::drive::{Dice, Running, Setup, assert_idle, finish, request};

/// None, prompt lookup, or a drafter that often lies.
pub(crate) fn speculation() -> impl Strategy<Value = Option<Speculation>> {
    let ngram = (1..3_usize, 0..3_usize)
        .prop_map(|(min, more)| Method::Ngram { prompt_lookup_min: min, prompt_lookup_max: min + more });
    let some = (1..9_usize, 0..4_usize, prop_oneof![ngram, Just(Method::Mtp)]);
    prop::option::of(some.prop_map(|(num_speculative_tokens, disable_by_batch_size, method)| Speculation {
        num_speculative_tokens,
        disable_by_batch_size,
        method,
    }))
}

fn speculating(method: Method) -> Config {
    let speculation = Some(Speculation { num_speculative_tokens: 4, disable_by_batch_size: 0, method });
    Config { speculation, stream_tokens: 64, ..Config::default() }
}

fn greedy(seed: u64) -> GenerateRequest {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    GenerateRequest { sampling, stop_ids: vec![], max_tokens: 40, grammar: None, ..request(&mut Dice(seed)) }
}

#[test]
fn right_drafts_save_steps_and_are_counted() {
    let plain = Setup::default().start();
    let drafted = Setup { config: speculating(Method::Mtp), ..Setup::default() }.start();
    for seed in 0..10 {
        let r = greedy(seed);
        finish(plain.submit(r.clone()).unwrap()).assert_exact(&r, false);
        finish(drafted.submit(r.clone()).unwrap()).assert_exact(&r, false);
    }
    let (plain, drafted) = (assert_idle(&plain), assert_idle(&drafted));
    assert!(drafted.steps_total * 3 < plain.steps_total * 2, "{drafted:?} {plain:?}");
    assert_eq!(drafted.generated_tokens_total, plain.generated_tokens_total);
    let (checked, right) = (drafted.spec_decode_draft_tokens_total, drafted.spec_decode_accepted_tokens_total);
    assert!(right > 100 && right < checked, "{drafted:?}");
    // Every accepted token is a step saved; steps that only prefill are the same in both.
    assert_eq!(drafted.steps_total + right, plain.steps_total);
}

#[test]
fn the_prompt_is_looked_up_whatever_comes_of_it() {
    let engine =
        Setup { config: speculating(Method::Ngram { prompt_lookup_min: 1, prompt_lookup_max: 3 }), ..Setup::default() };
    let engine = engine.start();
    for seed in 0..30 {
        let mut r = greedy(seed);
        r.prompt = r.prompt.repeat(3);
        finish(engine.submit(r.clone()).unwrap()).assert_exact(&r, false);
    }
    let stats = assert_idle(&engine);
    assert!(stats.spec_decode_drafts_total > 100, "{stats:?}");
}

#[test]
fn a_model_that_cannot_be_rewound_refuses_to_start() {
    let setup = Setup { stateful: true, config: speculating(Method::Mtp), ..Setup::default() };
    let refused = Engine::start(Workers::Both(setup.device()), &setup.config).map(Running::from);
    assert!(matches!(refused, Err(StartError::Speculation(why)) if why.contains("taken back")));
}
