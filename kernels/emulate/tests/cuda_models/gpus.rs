//! Two GPUs in one process.

use sluicegate_backend::exec::{CacheReader as _, Executor};
use sluicegate_backend::run::{CudaRunOptions, open_cuda};

use crate::drive::{Part, follow, logits};
use crate::{kernels, model, with_driver};

#[test]
fn blocks_move_between_two_gpus() {
    if crate::is_real() {
        return eprintln!("skipped: for the stand-in's two GPUs");
    }
    with_driver(5, || {
        let tokens: Vec<u32> = (0..38).map(|i| 2 + (i * 37 + 303 + i * i % 13) % 500).collect();
        let open = |ordinal| {
            let kernels = kernels();
            let options =
                CudaRunOptions { ordinal, blocks: 32, sequences: 64, rows: 64, kernels, ..Default::default() };
            open_cuda(&model("llama"), &options).expect("a golden model opens")
        };
        let (mut prefill, mut decode) = (open(0), open(1));
        let whole = follow(&mut prefill, &tokens, &[37], &[4, 5, 6]);
        let mut bytes = vec![0; prefill.model().cache.block_bytes()];
        for (from, to) in [(4, 19), (5, 2), (6, 30)] {
            prefill.read_block(from, &mut bytes);
            decode.write_block(to, &bytes);
        }
        let part = Part { tokens: vec![tokens[37]], start: 37, blocks: vec![19, 2, 30], slot: 3 };
        assert_eq!(logits(&mut decode, &[part])[0], whole[37], "a block lost something on its way");
    });
}
