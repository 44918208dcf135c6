//! NVFP4 weights with NVFP4 activations: the CPU's reference of the same arithmetic, and what can't run so.

use std::process::Command;

use sluicegate_backend::models::CacheDtypes;
use sluicegate_backend::run::{CpuRunOptions, CudaRunOptions, open_cpu, open_cuda};
use sluicegate_emulate::host::{StandIn, Toolchain};

use crate::drive::{Part, follow, logits};
use crate::golden::compare;
use crate::{is_real, kernels, model, with_driver};

const DIR: &str = "llama_nvfp4_modelopt";
const BLOCKS: [u32; 9] = [9, 2, 5, 11, 3, 8, 10, 0, 1];

fn gpu_options() -> CudaRunOptions {
    let sizes = CudaRunOptions { blocks: 32, sequences: 96, rows: 96, kernels: kernels(), ..Default::default() };
    CudaRunOptions { fp4_activations: true, simulate: false, ..sizes }
}

/// A sequence of one token each: attention has nothing to weigh and returns the values as they are, so that nothing is left in which
/// CPU and GPU differ by more than the last bits of sums.
fn singles() -> Vec<Part> {
    let token = |i: u32| 2 + (i * 37 + 303 + i * i % 13) % 500;
    (0..24).map(|i| Part { tokens: vec![token(i)], start: 0, blocks: vec![i], slot: i }).collect()
}

fn on_cpu(fp4_activations: bool) -> Vec<Vec<f32>> {
    let sizes = CpuRunOptions { blocks: 32, sequences: 96, rows: 96, threads: 1, ..CpuRunOptions::reference() };
    let options = CpuRunOptions { dtypes: CacheDtypes::BF16, fp4_activations, ..sizes };
    logits(&mut open_cpu(&model(DIR), &options).expect("a golden model opens"), &singles())
}

/// Sums that differ by a bit may land on the two sides of a step of four bits, here and there.
#[test]
fn a_gpu_computes_what_the_reference_does() {
    with_driver(21, || {
        let (wanted, wide) = (on_cpu(true), on_cpu(false));
        let mut gpu = open_cuda(&model(DIR), &gpu_options()).expect("a golden model opens");
        let found = logits(&mut gpu, &singles());
        let ((off, same), (apart, _)) = (compare(&found, &wanted), compare(&wide, &wanted));
        println!("rms of errors {off:.4}; W4A4 is {apart:.4} from W4A16; best token the same at {:.1} %", same * 100.0);
        assert!(off < 0.1 * apart, "errors of {off}, and {apart} is what 4 bits change");
        assert!(same > 0.9, "{same} of the tokens are the same");
    });
}

#[test]
fn no_bit_depends_on_chunks_or_company() {
    with_driver(23, || {
        let tokens: Vec<u32> = (0..60).map(|i| 2 + (i * 37 + 303 + i * i % 13) % 500).collect();
        let mut gpu = open_cuda(&model(DIR), &gpu_options()).expect("a golden model opens");
        let whole = Part { tokens: tokens.clone(), start: 0, blocks: BLOCKS.to_vec(), slot: 0 };
        let found = logits(&mut gpu, &[whole]);
        let again = follow(&mut gpu, &tokens, &[17, 30], &[20, 21, 27, 23, 30, 31, 26, 22, 28]);
        assert!(again == found, "bits depend on chunks or blocks");
        let alone: Vec<_> = singles().into_iter().flat_map(|part| logits(&mut gpu, &[part])).collect();
        assert!(alone == logits(&mut gpu, &singles()), "bits depend on the batch");
    });
}

#[test]
fn what_cannot_run_so_is_refused() {
    with_driver(22, || {
        let refused = |dir: &str, expected: &str| {
            let error = open_cuda(&model(dir), &gpu_options()).map(drop).expect_err("it is refused").to_string();
            assert!(error.contains(expected) && error.contains("w4a16"), "{error}");
        };
        refused("llama", "the checkpoint has no NVFP4 weights");
        refused("qwen3moe", "experts' products have no kernel for FP4 activations");
        let fast = CpuRunOptions { fp4_activations: true, ..CpuRunOptions::default() };
        let error = open_cpu(&model(DIR), &fast).map(drop).expect_err("it is refused").to_string();
        assert!(error.contains("needs arithmetic = \"reference\""), "{error}");
    });
}

/// Set in the other process.
const HOPPER: &str = "SLUICEGATE_TEST_HOPPER";

/// A driver's GPUs stay what they are for a process's life, so another process has another GPU.
#[test]
fn a_gpu_without_such_products_is_refused() {
    if is_real() || Toolchain::find().is_none() {
        return;
    }
    let mut other = Command::new(std::env::current_exe().expect("this test"));
    other.args(["w4a4::on_hopper", "--exact", "--ignored"]).env(HOPPER, "1");
    let done = other.output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "the other process of the test above"]
fn on_hopper() {
    if std::env::var_os(HOPPER).is_none() {
        return;
    }
    let toolchain = Toolchain::find().expect("the test has looked");
    StandIn { capability: 90, ..StandIn::default() }.load(&toolchain).unwrap_or_else(|e| panic!("{e:#}"));
    let error = open_cuda(&model(DIR), &gpu_options()).map(drop).expect_err("it is refused").to_string();
    assert!(error.contains("compute capability 12.x, this one has 9.0") && error.contains("w4a16"), "{error}");
    let wide = CudaRunOptions { fp4_activations: false, ..gpu_options() };
    open_cuda(&model(DIR), &wide).expect("W4A16 runs on every GPU");
}
