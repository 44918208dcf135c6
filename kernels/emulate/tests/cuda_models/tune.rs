//! The tuner on a GPU: every knob is turned between runs, tokens stay, and the profile is written, found and applied.

use std::path::Path;

use sluicegate_backend::run::{CudaRunOptions, DeviceId, Knobs, open_cuda};
use sluicegate_backend::tune::{self, Card, Knob, Made, Profile, Search, Tuning, Verdict, Workload};

use crate::drive::follow;
use crate::{kernels, model, with_driver};

const GPU: DeviceId = DeviceId::Cuda(0);

const ROWS: u32 = 24;

fn options(rows: u32) -> CudaRunOptions {
    CudaRunOptions { blocks: 64, sequences: rows, rows, kernels: kernels(), ..Default::default() }
}

/// Few and small runs: the stand-in is slow.
fn search() -> Search {
    let workload = Workload { input_len: 12, output_len: 2 };
    let search = Search { knobs: vec![Knob::FineBuckets], concurrency: vec![2], workload, pairs: 0 };
    Search { pairs: search.fewest_pairs(ROWS, 1), ..search }
}

/// Which value wins is the machine's business.
#[test]
fn a_search_reports_every_comparison_and_its_profile_is_found() {
    with_driver(5, || {
        let search = search();
        let device = open_cuda(&model("llama_nvfp4_modelopt"), &options(ROWS)).expect("a golden model opens");
        let mut heard = Vec::new();
        let found = tune::run(&search, Box::new(device), &mut |t| heard.push(*t)).expect("a search ends");
        assert_eq!(found.trials, heard);
        let turned: Vec<_> = found.trials.iter().filter_map(|t| Some((t.knob?, t.from, t.to, t.concurrency))).collect();
        assert_eq!(turned, [(Knob::FineBuckets, 1, 0, 2)]);
        for t in &found.trials {
            let times = &t.times;
            assert_eq!(times.pairs, search.pairs);
            assert!(times.baseline > 0.0 && times.candidate > 0.0, "{t:?}");
            assert!(0.0 < times.low && times.low <= times.ratio && times.ratio <= times.high, "{t:?}");
            assert!(times.high.is_finite() && (times.verdict() != Verdict::Faster || times.ratio < 1.0), "{t:?}");
        }
        let is_default = found.best == Tuning::default();
        assert!(!is_default || found.is_withdrawn || found.trials.iter().all(|t| t.knob.is_some()), "{found:?}");

        let folder = tempfile::tempdir().expect("a folder");
        let card = Card::of(GPU).expect("there is a GPU");
        let profile = Profile::new(&card, Made::default(), &search, &found);
        let path = profile.save(folder.path()).expect("it is written");
        assert!(path.to_string_lossy().contains(&format!(",capability={}", card.capability)), "{}", path.display());
        assert_eq!(tune::tuning(Some(folder.path()), GPU).expect("it is found"), found.best);
        let (cuda, _) = tune::driver(GPU);
        assert!(cuda.expect("a driver has a version").contains('.'));
    });
}

/// What a profile says is what the device does: other knobs, other recordings, the same bits.
#[test]
fn a_profile_is_applied_and_changes_no_bit() {
    with_driver(6, || {
        let folder = tempfile::tempdir().expect("a folder");
        let card = Card::of(GPU).expect("there is a GPU");
        let knobs = Knobs {
            attention_blocks: 1 << 16,
            attention_many_rows: 17,
            gemm_64_rows: 1,
            gemm_128_rows: 65,
            fine_buckets: false,
        };
        let set = Tuning { knobs, long_prefill_token_threshold: 64 };
        let found = tune::Found { best: set, trials: Vec::new(), is_withdrawn: false };
        let all = Search { knobs: Knob::of(GPU).to_vec(), ..search() };
        Profile::new(&card, Made::default(), &all, &found).save(folder.path()).expect("it is written");

        let read = tune::tuning(Some(folder.path()), GPU).expect("it is found");
        assert_eq!(read, set);
        let tokens: Vec<u32> = (0..76).map(|i| 2 + (i * 37 + 303) % 500).collect();
        let blocks: Vec<u32> = (0..8).rev().collect();
        let open = |options| open_cuda(&model("llama_nvfp4_modelopt"), &options).expect("a golden model opens");
        let mut gpu = open(options(96));
        let plain = follow(&mut gpu, &tokens, &[20, 50], &blocks);
        let (recordings, usual) = (gpu.device().recordings(), Knobs::default());
        // On the way, on a device that has run: as the tuner does, there and back. A chunk of another size, too.
        gpu.tune(read.knobs);
        assert!(follow(&mut gpu, &tokens, &[20, 50], &blocks) == plain);
        assert!(gpu.device().recordings() > recordings, "other knobs take recordings of their own");
        gpu.tune(usual);
        let recordings = gpu.device().recordings();
        assert!(follow(&mut gpu, &tokens, &[20, 50], &blocks) == plain);
        assert_eq!(gpu.device().recordings(), recordings, "old ones are kept");
        let chunk = read.long_prefill_token_threshold as usize;
        let mut tuned = open(CudaRunOptions { knobs: read.knobs, ..options(96) });
        assert!(follow(&mut tuned, &tokens, &[chunk], &blocks) == plain);
    });
}

/// A driver, and a profile that is another card's.
#[test]
fn another_cards_profile_is_refused() {
    with_driver(7, || {
        let card = Card::of(GPU).expect("there is a GPU");
        let text = "[device]\nname = \"another\"\ncapability = \"1.0\"\n[made]\n";
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(tune::tuning(Some(folder.path()), GPU).expect("no profile is no error"), Tuning::default());
        std::fs::write(folder.path().join(card.file_name()), text).expect("it is written");
        let error = tune::tuning(Some(folder.path()), GPU).expect_err("it is refused").to_string();
        assert!(
            error.contains(":2: device.name: this profile is for \"another\"") && error.contains(&card.name),
            "{error}"
        );
        assert!(tune::tuning(Some(Path::new("/nowhere")), GPU).is_err());
    });
}
