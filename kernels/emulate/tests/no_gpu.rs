//! A driver that is there and finds no GPU.

use sluicegate_emulate::host::{IMAGE, StandIn, Toolchain};
use sluicegate_kernels::cuda::device::{Bench, gpus};

#[test]
fn a_driver_without_a_gpu_is_a_clear_error() {
    let Some(toolchain) = Toolchain::find() else {
        eprintln!("skipped: there is no C++ compiler to build the stand-in driver with");
        return;
    };
    StandIn { devices: 0, ..StandIn::default() }.load(&toolchain).unwrap_or_else(|e| panic!("{e:#}"));
    for error in [gpus().unwrap_err(), Bench::open(0, &[IMAGE]).map(drop).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("the NVIDIA driver is installed but gives no usable GPU"), "{text}");
        assert!(text.contains("CUDA_ERROR_NO_DEVICE") && text.contains("nvidia-smi"), "{text}");
    }
}
