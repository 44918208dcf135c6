//! Prefill whole, in uneven chunks, token by token, in other blocks, beside other sequences: the same bits.

use proptest::prelude::*;
use sluicegate_backend::exec::{CacheReader as _, Executor};
use sluicegate_backend::run::CpuRunOptions;

use crate::drive::{decode, logits, open};
use crate::golden::{Golden, model};

fn check(set: &str, dir: &str, options: CpuRunOptions) {
    let golden = Golden::read(set);
    let mut runner = open(&model(dir), options);
    let tables: [Vec<u32>; 2] = [(0..32).collect(), (0..32).map(|b| (b * 19 + 5) % 64).collect()];
    for p in &golden.prompts {
        let tokens: Vec<u32> = p.ids.iter().chain(&p.greedy).copied().collect();
        let whole = logits(&mut runner, &tokens, &[160], &tables[0]);
        for (chunks, table) in [(&[1][..], 0), (&[3, 16, 1, 33, 8], 1), (&[17], 1)] {
            let found = logits(&mut runner, &tokens, chunks, &tables[table]);
            assert!(found == whole, "{}: chunks {chunks:?}", p.name);
        }
    }
}

#[test]
fn chunking_does_not_matter_in_reference_arithmetic() {
    check("llama_nvfp4", "llama_nvfp4_modelopt", CpuRunOptions::reference());
}

#[test]
fn chunking_does_not_matter_in_fast_arithmetic() {
    check("llama_nvfp4", "llama_nvfp4_modelopt", CpuRunOptions::default());
}

#[test]
fn chunking_does_not_matter_to_deepseek_v4() {
    for options in [CpuRunOptions::reference(), CpuRunOptions::default()] {
        let options = CpuRunOptions { block_tokens: 128, ..options };
        check("deepseek_v4_mixed", "deepseek_v4_nvfp4_mixed", options);
    }
}

/// Every number format of the caches, with and without the reference's roundings.
#[test]
fn chunking_does_not_matter_to_deepseek_v4_in_any_cache_format() {
    use sluicegate_backend::models::{CacheDtypes, IndexCacheDtype, KvCacheDtype};
    for (kv, index, simulate) in [
        (KvCacheDtype::Fp8, IndexCacheDtype::Fp4, true),
        (KvCacheDtype::Fp8, IndexCacheDtype::Fp8, false),
        (KvCacheDtype::F16, IndexCacheDtype::Bf16, true),
    ] {
        let dtypes = CacheDtypes { kv, index };
        let options = CpuRunOptions { block_tokens: 128, dtypes, simulate, ..CpuRunOptions::default() };
        check("deepseek_v4_mixed", "deepseek_v4_nvfp4_mixed", options);
    }
}

/// Drafts that are rejected leave nothing behind: after wrong tokens, the right ones give what they give without.
#[test]
fn deepseek_v4_takes_rejected_drafts_back() {
    let golden = Golden::read("deepseek_v4_mixed");
    let drafts = 3;
    let options = CpuRunOptions { block_tokens: 128, draft_tokens: drafts, ..CpuRunOptions::default() };
    let mut runner = open(&model("deepseek_v4_nvfp4_mixed"), options);
    let table: Vec<u32> = (0..8).collect();
    for p in &golden.prompts {
        let tokens: Vec<u32> = p.ids.iter().chain(&p.greedy).copied().collect();
        let whole = logits(&mut runner, &tokens, &[160], &table);
        let mut start = 0;
        // Each step runs one right token and three more, of which the first `right` are right, and keeps the right ones.
        for right in [0, 1, 2, 3, 0].into_iter().cycle() {
            if start + 1 + right > tokens.len() {
                break;
            }
            let mut step = tokens[start..=start + right].to_vec();
            step.resize(1 + drafts as usize, 7);
            let mut rows = runner.logits(&crate::drive::plan(&step, start as u32, &table)).unwrap();
            for i in 0..=right {
                assert!(rows.row(i) == whole[start + i], "{} position {}", p.name, start + i);
            }
            start += 1 + right;
        }
    }
}

#[test]
fn chunking_does_not_matter_to_experts() {
    check("qwen3moe", "qwen3moe", CpuRunOptions::default());
}

#[test]
fn a_block_that_was_carried_elsewhere_is_the_same() {
    let golden = Golden::read("llama_nvfp4");
    let tokens = &golden.prompts[1].ids;
    let open = || open(&model("llama_nvfp4_modelopt"), CpuRunOptions::default());
    let (mut here, mut there) = (open(), open());
    let whole = logits(&mut here, tokens, &[160], &[0, 1, 2]);
    let mut bytes = vec![0; here.model().cache.block_bytes()];
    for (from, to) in [(0, 9), (1, 4)] {
        here.read_block(from, &mut bytes);
        there.write_block(to, &bytes);
    }
    // The first 32 tokens' keys and values came by copy.
    let rest = there.logits(&crate::drive::plan(&tokens[32..], 32, &[9, 4, 7])).unwrap().row(0).to_vec();
    assert!(rest == whole[32]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn decoding_together_equals_decoding_alone(
        prompts in prop::collection::vec(prop::collection::vec(3..512u32, 1..20), 2..5),
    ) {
        let mut runner = open(&model("llama_nvfp4_modelopt"), CpuRunOptions::default());
        let together = decode(&mut runner, &prompts, 12);
        for (prompt, expected) in prompts.iter().zip(together) {
            prop_assert_eq!(&decode(&mut runner, std::slice::from_ref(prompt), 12)[0], &expected);
        }
    }
}
