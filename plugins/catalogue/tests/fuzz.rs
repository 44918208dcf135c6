//! The fuzz targets' corpus and fresh random bytes through the same entry: a smoke run of fuzzing on stable Rust.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sluicegate_catalogue::fuzz::{Family, Target};

#[test]
fn the_corpus_holds_the_laws() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for family in Family::ALL {
        let target = Target::new(family);
        let folder = corpus.join(family.name());
        let inputs = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut ran = 0;
        for input in inputs.flatten() {
            let data = std::fs::read(input.path()).expect("readable");
            target.check(&data).unwrap_or_else(|error| panic!("{}: {error}", input.path().display()));
            ran += 1;
        }
        assert!(ran > 0, "{} is empty", folder.display());
    }
}

/// The same bytes in every ordinary run; `SLUICEGATE_LAW_CASES` makes it long, and random.
#[test]
fn random_bytes_hold_the_laws() {
    let wanted = std::env::var("SLUICEGATE_LAW_CASES").ok().and_then(|n| n.parse().ok());
    let mut broken = Vec::new();
    for family in Family::ALL {
        let target = Target::new(family);
        let config = Config { cases: wanted.unwrap_or(400), failure_persistence: None, ..Config::default() };
        let mut runner = match wanted {
            Some(_) => TestRunner::new(config),
            None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        };
        let outcome = runner.run(&proptest::collection::vec(any::<u8>(), 6..120), |data| {
            target.check(&data).map_err(TestCaseError::fail)
        });
        broken.extend(outcome.err().map(|error| format!("{}: {error}", family.name())));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
