//! The trained DeepSeek-V4 toy writes the tool calls that the oracle wrote.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sluicegate_backend::run::CpuRunOptions;

use crate::drive::{decode, open};

#[derive(Deserialize)]
pub(crate) struct Request {
    name: String,
    pub(crate) prompt_ids: Vec<u32>,
    output_ids: Vec<u32>,
    pub(crate) nvfp4_output_ids: Vec<u32>,
    min_gap: f32,
}

/// Below this distance between best and second logit, roundings may decide.
const GAP: f32 = 0.2;

/// The model in one of its formats.
pub(crate) fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-dsv4-tools").join(format)
}

pub(crate) fn requests() -> Vec<Request> {
    let path = folder("bf16").join("goldens.json");
    serde_json::from_slice(&std::fs::read(path).expect("goldens")).expect("goldens")
}

fn check(format: &str, output: impl Fn(&Request) -> &Vec<u32>) -> usize {
    let mut runner = open(&folder(format), CpuRunOptions { block_tokens: 128, ..CpuRunOptions::reference() });
    let mut compared = 0;
    for r in requests().iter().filter(|r| r.min_gap > GAP) {
        let expected = output(r);
        let found = decode(&mut runner, std::slice::from_ref(&r.prompt_ids), expected.len());
        assert_eq!(&found[0], expected, "{format} {}", r.name);
        compared += 1;
    }
    compared
}

#[test]
fn calls_of_the_bf16_model() {
    assert_eq!(check("bf16", |r| &r.output_ids), 17);
}

#[test]
fn calls_of_the_nvfp4_model() {
    assert_eq!(check("nvfp4", |r| &r.nvfp4_output_ids), 17);
}

/// In fast arithmetic, with a BF16 cache: roundings may turn what was close. By default, activations in front of FP8 are rounded, too, which
/// the oracle did not do.
#[test]
fn calls_in_fast_arithmetic() {
    let all = requests();
    for (simulate, least) in [(false, 18), (true, 17)] {
        let mut runner =
            open(&folder("nvfp4"), CpuRunOptions { block_tokens: 128, simulate, ..CpuRunOptions::default() });
        let same = |r: &&Request| {
            decode(&mut runner, std::slice::from_ref(&r.prompt_ids), r.nvfp4_output_ids.len())[0] == r.nvfp4_output_ids
        };
        let same = all.iter().filter(same).count();
        println!("{same} of {} outputs equal the reference, roundings {simulate}", all.len());
        assert!(same >= least, "{same} of {}", all.len());
    }
}
