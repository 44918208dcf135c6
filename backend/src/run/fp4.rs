//! W4A4: which checkpoints may run with their activations in NVFP4.

use crate::layers::LoadError;
use crate::weights::Checkpoint;
use crate::weights::config::Family;

/// Names of a matrix's global scale and of its input's, in the two layouts.
const SCALES: [(&str, &str); 2] =
    [(".weight_scale_2", ".input_scale"), (".weight_global_scale", ".input_global_scale")];

/// Refuses a checkpoint that was not quantized for FP4 activations: every NVFP4 matrix must have the scale of its input. That scale is
/// only what says so; rows are quantized by scales of their own.
pub(super) fn check(checkpoint: &Checkpoint) -> Result<(), LoadError> {
    let refuse = |why: String| Err(LoadError::Device(format!("nvfp4_gemm = \"w4a4\": {why}; use \"w4a16\"")));
    if matches!(checkpoint.config().family, Family::Qwen3Moe(..) | Family::DeepseekV4(_)) {
        return refuse("experts' products have no kernel for FP4 activations".into());
    }
    let mut matrices = 0;
    for t in checkpoint.tensors() {
        for (global, input) in SCALES {
            let Some(prefix) = t.name().strip_suffix(global) else { continue };
            matrices += 1;
            let input = format!("{prefix}{input}");
            if checkpoint.tensor(&input).is_none() {
                return refuse(format!("`{input}` is missing, so the checkpoint keeps activations in 16 bits"));
            }
        }
    }
    if matrices == 0 {
        return refuse("the checkpoint has no NVFP4 weights".into());
    }
    Ok(())
}
