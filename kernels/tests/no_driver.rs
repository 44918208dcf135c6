//! Where CUDA is absent, the CUDA device says so and does nothing worse.

use sluicegate_kernels::batch::Limits;
use sluicegate_kernels::cuda::device::{Cuda, gpus};

#[test]
fn without_a_driver_there_is_a_clear_error_and_no_panic() {
    let limits = Limits { rows: 1, samples: 1, table_entries: 1, block_tokens: 16, blocks: 1, slots: 1 };
    match gpus() {
        Ok(found) => println!("this machine has {found:?}"),
        Err(error) => {
            let opened = Cuda::new(0, &[], limits).unwrap_err();
            assert_eq!(opened, error);
            let text = error.to_string();
            assert!(text.contains("no NVIDIA driver: libcuda.so.1 was not found") || text.contains("no usable GPU"));
        }
    }
}
