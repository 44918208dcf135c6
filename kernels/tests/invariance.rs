//! The law of every device: a row's output depends on its own sequence and on nothing else. One small transformer layer
//! runs under random batching, chunking, block placement, thread counts and instruction sets; logits are equal bit for bit.

mod layer;

use layer::{Layer, Run, VOCAB};
use proptest::prelude::*;
use sluicegate_kernels::cpu::{Arithmetic, CpuOptions, Isa};
use sluicegate_kernels::ops::KvStore;

/// Logits at each position of each sequence, one row at a time on one thread with portable code.
fn alone(arithmetic: Arithmetic, store: KvStore, sequences: &[Vec<u32>]) -> Vec<Vec<Vec<u32>>> {
    let isa = Isa::available()[0];
    let mut layer = Layer::new(CpuOptions { threads: 1, arithmetic, isa, ..CpuOptions::default() }, store, 256);
    let mut out = Vec::new();
    for (s, tokens) in sequences.iter().enumerate() {
        let table: Vec<u32> = (0..8).map(|b| (s * 8 + b) as u32).collect();
        let mut rows = Vec::new();
        for (p, &token) in tokens.iter().enumerate() {
            let run = Run { tokens: vec![token], start: p as u32, table: table.clone() };
            rows.extend(layer.step(&[run]));
        }
        out.push(rows);
    }
    out
}

/// Cuts each sequence into chunks and runs them in steps of random composition.
fn together(layer: &mut Layer, sequences: &[Vec<u32>], tables: &[Vec<u32>], mut dice: u64) -> Vec<Vec<Vec<u32>>> {
    let mut roll = move |n: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) as usize % n
    };
    let mut out: Vec<Vec<Vec<u32>>> = vec![Vec::new(); sequences.len()];
    while out.iter().zip(sequences).any(|(o, s)| o.len() < s.len()) {
        let mut runs = Vec::new();
        let mut who = Vec::new();
        for (s, tokens) in sequences.iter().enumerate() {
            let start = out[s].len();
            let left = tokens.len() - start;
            if left == 0 || roll(3) == 0 {
                continue;
            }
            let rows = 1 + roll(left.min(40));
            let run =
                Run { tokens: tokens[start..start + rows].to_vec(), start: start as u32, table: tables[s].clone() };
            who.push((s, rows));
            runs.push(run);
        }
        if runs.is_empty() {
            continue;
        }
        let mut logits = layer.step(&runs).into_iter();
        for (s, rows) in who {
            out[s].extend(logits.by_ref().take(rows));
        }
    }
    out
}

fn check(arithmetic: Arithmetic, store: KvStore, sequences: &[Vec<u32>], dice: u64) {
    let expected = alone(arithmetic, store, sequences);
    for isa in Isa::available() {
        for threads in [1, 3] {
            // 96 tokens are 6 blocks of 16; the blocks of all sequences are interleaved by a stride that depends on the dice.
            let stride = [1, 3, 5, 7, 11][dice as usize % 5];
            let place = |i: usize| (i * stride % 256) as u32;
            let tables: Vec<Vec<u32>> =
                (0..sequences.len()).map(|s| (0..6).map(|b| place(b * sequences.len() + s)).collect()).collect();
            let mut layer = Layer::new(CpuOptions { threads, arithmetic, isa, ..CpuOptions::default() }, store, 256);
            let found = together(&mut layer, sequences, &tables, dice);
            assert!(found == expected, "{isa:?}, {threads} threads, {arithmetic:?}, {store:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_row_depends_on_its_own_sequence_only(
        sequences in prop::collection::vec(prop::collection::vec(0..VOCAB as u32, 1..60), 1..6),
        dice in any::<u64>(),
        store in prop::sample::select(vec![KvStore::F32, KvStore::F16, KvStore::Bf16]),
    ) {
        for arithmetic in [Arithmetic::Fast, Arithmetic::Reference] {
            check(arithmetic, store, &sequences, dice);
        }
    }
}

/// More rows than a cache block of tokens, so that every loop of the matrix kernels is taken.
#[test]
fn a_long_prompt_is_the_same_whole_and_in_pieces() {
    let tokens: Vec<u32> = (0..90).map(|i| i * 7 % VOCAB as u32).collect();
    let sequences = vec![tokens; 2];
    for seed in 0..3 {
        check(Arithmetic::Fast, KvStore::Bf16, &sequences, seed);
    }
}
