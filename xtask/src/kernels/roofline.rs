//! The least time each kernel can take on each GPU: bytes over bandwidth or operations over peak, whichever is more.

use std::fmt::Write;

/// A GPU's nominal figures.
struct Gpu {
    name: &'static str,
    /// Bytes a second.
    bandwidth: f64,
    /// Dense operations a second on tensor cores, bf16 in and f32 out.
    bf16: f64,
    /// The same for block-scaled FP4, where there is such an instruction.
    fp4: Option<f64>,
}

const GPUS: [Gpu; 3] = [
    Gpu { name: "H200", bandwidth: 4.8e12, bf16: 989e12, fp4: None },
    Gpu { name: "RTX PRO 6000", bandwidth: 1.79e12, bf16: 503e12, fp4: Some(2015e12) },
    Gpu { name: "B200", bandwidth: 8e12, bf16: 2250e12, fp4: Some(9000e12) },
];

/// Work of one launch.
struct Work {
    kernel: &'static str,
    shape: String,
    bytes: f64,
    operations: f64,
    fp4: bool,
}

/// `m` rows times an NVFP4 matrix: 4.5 bits a weight, activations of `act` bytes in, f32 out.
fn gemm(kernel: &'static str, fp4: bool, (m, n, k): (f64, f64, f64)) -> Work {
    let act = if fp4 { 0.5625 } else { 2.0 };
    let bytes = n * k * 0.5625 + m * k * act + m * n * 4.0;
    Work { kernel, shape: format!("{m} x {n} x {k}"), bytes, operations: 2.0 * m * n * k, fp4 }
}

/// One row of each of `batch` sequences over `len` cached tokens, 32 query heads and 8 KV heads of 128.
fn decode(batch: f64, len: f64) -> Work {
    let bytes = batch * (len * 2.0 * 8.0 * 128.0 * 2.0 + 32.0 * 128.0 * 6.0);
    let operations = batch * len * 32.0 * 128.0 * 4.0;
    Work { kernel: "attention_128_16", shape: format!("{batch} sequences of {len}"), bytes, operations, fp4: false }
}

/// A prompt of `len` tokens, causal.
fn prefill(len: f64) -> Work {
    let bytes = len * (2.0 * 8.0 * 128.0 * 2.0 + 32.0 * 128.0 * 6.0);
    let operations = len * len / 2.0 * 32.0 * 128.0 * 4.0;
    Work { kernel: "attention_128_64", shape: format!("{len} tokens"), bytes, operations, fp4: false }
}

/// Rows of 4096 that are read and written so many bytes a number.
fn rows(kernel: &'static str, rows: f64, bytes: f64) -> Work {
    Work { kernel, shape: format!("{rows} x 4096"), bytes: rows * 4096.0 * bytes, operations: 0.0, fp4: false }
}

/// The shapes of one layer of Qwen3-8B.
fn works() -> Vec<Work> {
    let (gate_up, down) = ((24_576.0, 4096.0), (4096.0, 12_288.0));
    vec![
        gemm("gemm_nvfp4_16", false, (1.0, gate_up.0, gate_up.1)),
        gemm("gemm_nvfp4_16", false, (16.0, gate_up.0, gate_up.1)),
        gemm("gemm_nvfp4_16", false, (1.0, down.0, down.1)),
        gemm("gemm_nvfp4_64", false, (64.0, gate_up.0, gate_up.1)),
        gemm("gemm_nvfp4_128", false, (2048.0, gate_up.0, gate_up.1)),
        gemm("gemm_w4a4", true, (64.0, gate_up.0, gate_up.1)),
        gemm("gemm_w4a4", true, (2048.0, gate_up.0, gate_up.1)),
        decode(1.0, 4096.0),
        decode(64.0, 4096.0),
        prefill(4096.0),
        prefill(32_768.0),
        rows("rms_norm", 64.0, 6.0),
        rows("rms_norm", 4096.0, 6.0),
    ]
}

/// A row for each shape, a column for each GPU, microseconds.
pub(crate) fn table() -> String {
    let mut out = String::from(
        "### Floors\n\nMicroseconds that the launch cannot be faster than, from nominal bandwidth (M) or peak (C). **Not measured**: no \
         kernel has run on hardware yet.\n\n| kernel | shape |",
    );
    for gpu in &GPUS {
        let _ = write!(out, " {} |", gpu.name);
    }
    out += "\n| --- | --- |";
    out += &" ---: |".repeat(GPUS.len());
    out.push('\n');
    for work in works() {
        let _ = write!(out, "| `{}` | {} |", work.kernel, work.shape);
        for gpu in &GPUS {
            let _ = write!(out, " {} |", floor(&work, gpu));
        }
        out.push('\n');
    }
    out
}

fn floor(work: &Work, gpu: &Gpu) -> String {
    let peak = match (work.fp4, gpu.fp4) {
        (true, None) => return "-".into(),
        (true, Some(fp4)) => fp4,
        (false, _) => gpu.bf16,
    };
    let (memory, compute) = (work.bytes / gpu.bandwidth * 1e6, work.operations / peak * 1e6);
    let (time, bound) = if memory >= compute { (memory, 'M') } else { (compute, 'C') };
    format!("{time:.1} {bound}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_bandwidth_or_peak() {
        let decode = gemm("g", false, (1.0, 24_576.0, 4096.0));
        assert_eq!(floor(&decode, &GPUS[0]), "11.8 M");
        let prefill = gemm("g", false, (2048.0, 24_576.0, 4096.0));
        assert_eq!(floor(&prefill, &GPUS[0]), "416.9 C");
        assert_eq!(floor(&gemm("g", true, (64.0, 64.0, 64.0)), &GPUS[0]), "-");
    }
}
