//! A knob says where work runs and changes no bit of a result.

use sluicegate_backend::run::{CudaRunOptions, Knobs, open_cuda};

use crate::drive::{Part, follow, logits};
use crate::{kernels, model, with_driver};

const BLOCKS: [u32; 20] = [9, 2, 5, 11, 3, 8, 10, 0, 1, 4, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19];

/// A prompt, then single tokens; and single tokens of many sequences at once.
fn bits(knobs: Knobs) -> Vec<Vec<f32>> {
    let options =
        CudaRunOptions { blocks: 64, sequences: 96, rows: 96, knobs, kernels: kernels(), ..Default::default() };
    let mut gpu = open_cuda(&model("llama_nvfp4_modelopt"), &options).expect("a golden model opens");
    let tokens: Vec<u32> = (0..76).map(|i| 2 + (i * 37 + 303 + i * i % 13) % 500).collect();
    let mut out = follow(&mut gpu, &tokens, &[70, 4], &BLOCKS);
    let single = |slot: u32| Part { tokens: vec![3 + slot], start: 0, blocks: vec![20 + slot], slot };
    out.extend(logits(&mut gpu, &(0..18).map(single).collect::<Vec<_>>()));
    out
}

#[test]
fn no_knob_changes_a_bit() {
    with_driver(17, || {
        let usual = Knobs::default();
        let wanted = bits(usual);
        let others = [
            Knobs { attention_blocks: 1, attention_many_rows: 1, ..usual },
            Knobs { attention_blocks: 1 << 16, attention_many_rows: u32::MAX, fine_buckets: false, ..usual },
            Knobs { gemm_64_rows: 1, ..usual },
            Knobs { gemm_128_rows: 1, ..usual },
        ];
        for knobs in others {
            assert!(bits(knobs) == wanted, "{knobs:?}");
        }
    });
}
