//! What is written is read again, and what is wrong is refused with its line and key.

use std::path::Path;

use super::*;
use crate::run::DeviceId;
use crate::tune::{Comparison, Knob, Pair, Workload};

fn card() -> Card {
    Card { name: "NVIDIA H200".into(), capability: "9.0".into() }
}

fn parse(text: &str) -> Result<Profile, ProfileError> {
    Profile::parse(text, Path::new("p.toml"), &card())
}

const LEAST: &str = "[device]\nname = \"NVIDIA H200\"\ncapability = \"9.0\"\n[made]\n";

#[test]
fn what_is_saved_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    for &knob in Knob::of(DeviceId::Cuda(0)) {
        let best = knob.with(Tuning::default(), knob.candidates(4096)[0]);
        let times = Comparison::of(&[Pair { baseline: 0.2, candidate: 0.1 }], 1.0);
        let trial = Trial { knob: Some(knob), from: 1, to: 2, concurrency: 3, times };
        let search = Search {
            knobs: vec![knob],
            concurrency: vec![3],
            workload: Workload { input_len: 5, output_len: 7 },
            pairs: 1,
        };
        let found = Found { best, trials: vec![trial], is_withdrawn: false };
        let made = Made { sluicegate: "1.2.3".into(), date: "2026-01-02".into(), ..Made::default() };
        let profile = Profile::new(&card(), made, &search, &found);
        let path = profile.save(folder.path()).unwrap();
        assert_eq!(path, folder.path().join("device_name=NVIDIA_H200,capability=9.0.toml"));
        let (_, again) = find(folder.path(), &card()).unwrap().unwrap();
        assert_eq!((again.tuning(), &again.made, &again.measured), (best, &profile.made, &profile.measured));
        assert_eq!(again.made.output_len, 7);
    }
    assert_eq!(find(folder.path(), &Card { name: "other".into(), ..card() }).unwrap(), None);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_left_out_is_the_default() {
    assert_eq!(parse(LEAST).unwrap().tuning(), Tuning::default());
    let some = parse(&format!("{LEAST}[knobs]\nattention_blocks = 7\n")).unwrap().tuning();
    assert_eq!(some, Knob::AttentionBlocks.with(Tuning::default(), 7));
}

#[test]
fn errors_name_file_line_and_key() {
    let check = |text: &str, expected: &str| {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}\ngave: {message}\nwanted: {expected}");
        assert!(message.ends_with("run `sluicegate tune` again"), "{message}");
    };
    let knobs = |line: &str| format!("{LEAST}[knobs]\nfine_buckets = true\n{line}\n");
    check(&knobs("attention_block = 3"), "p.toml:7: knobs.attention_block: unknown field `attention_block`");
    check(&knobs("attention_blocks = 0"), "p.toml:7: knobs.attention_blocks: invalid value: integer `0`");
    check(&knobs("gemm_64_rows = -1"), "p.toml:7: knobs.gemm_64_rows: ");
    check(&knobs("gemm_128_rows = \"many\""), "p.toml:7: knobs.gemm_128_rows: invalid type");
    check(&knobs("= 3"), "p.toml:7: syntax: ");
    check("[made]\n", "missing field `device`");
    let other = LEAST.replace("H200", "B200");
    check(&other, "p.toml:2: device.name: this profile is for \"NVIDIA B200\", and the device is \"NVIDIA H200\"");
    check(&LEAST.replace("9.0", "9.1"), "p.toml:3: device.capability: this profile is for \"9.1\"");
}

#[test]
fn a_missing_folder_is_an_error_and_no_folder_is_none() {
    let message = tuning(Some(Path::new("/nowhere/at/all")), DeviceId::Cpu).unwrap_err().to_string();
    assert!(message.starts_with("/nowhere/at/all: ") && message.contains("--save-dir"), "{message}");
    assert_eq!(tuning(None, DeviceId::Cuda(99)).unwrap(), Tuning::default());
}
