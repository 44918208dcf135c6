//! The bugs: the kinds that CUDA code has, one of each at least.

/// One changed place.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// What kind it is.
    pub name: &'static str,
    /// Source below `kernels/cuda/`.
    pub file: &'static str,
    /// Group of the cases that run the kernel, then other sources whose kernels they need.
    pub sources: &'static [&'static str],
    /// Text to replace.
    pub from: &'static str,
    /// Its replacement.
    pub to: &'static str,
    /// Which of several such texts, from 0.
    pub occurrence: usize,
}

impl Bug {
    /// Name of the group of cases.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.sources.first().copied().unwrap_or_default()
    }
}

/// All of them.
pub const BUGS: &[Bug] = &[
    Bug {
        name: "missing barrier after a copy",
        file: "gemm_w4a4.cu",
        sources: &["gemm_w4a4", "quantize"],
        from: "    __syncthreads();\n",
        to: "",
        occurrence: 0,
    },
    Bug {
        name: "missing barrier before a refill",
        file: "gemm_w4a4.cu",
        sources: &["gemm_w4a4", "quantize"],
        from: "    __syncthreads();  // the stage is free again\n",
        to: "",
        occurrence: 0,
    },
    Bug {
        name: "missing wait for an asynchronous copy",
        file: "gemm_w4a4.cu",
        sources: &["gemm_w4a4", "quantize"],
        from: "wait_copies<0>()",
        to: "wait_copies<1>()",
        occurrence: 0,
    },
    Bug {
        name: "swapped fragment registers",
        file: "gemm_w4a4.cu",
        sources: &["gemm_w4a4", "quantize"],
        from: "{w[2 * n], w[2 * n + 1]}",
        to: "{w[2 * n + 1], w[2 * n]}",
        occurrence: 0,
    },
    Bug {
        name: "scale from the wrong lane",
        file: "gemm_w4a4.cu",
        sources: &["gemm_w4a4", "quantize"],
        from: "8 * (q & 1)",
        to: "8 * (q >> 1)",
        occurrence: 0,
    },
    Bug {
        name: "scale one half late",
        file: "gemm_w4a4.cu",
        sources: &["gemm_w4a4", "quantize"],
        from: "scale_word(first_column + warp * 16 + n * 8 + g, steps, step, half)",
        to: "scale_word(first_column + warp * 16 + n * 8 + g, steps, step, 0)",
        occurrence: 0,
    },
    Bug {
        name: "divergent tensor-core product",
        file: "gemm_w4a4.cu",
        sources: &["gemm_w4a4", "quantize"],
        from: "          multiply_nvfp4(",
        to: "          if (lane < 16) multiply_nvfp4(",
        occurrence: 0,
    },
    Bug {
        name: "divergent barrier",
        file: "gemm_w4a4.cu",
        sources: &["gemm_w4a4", "quantize"],
        from: "    __syncthreads();\n",
        to: "    if (warp < 2) __syncthreads();\n",
        occurrence: 0,
    },
    Bug {
        name: "read behind the weights",
        file: "gemm_w4a4.cu",
        sources: &["gemm_w4a4", "quantize"],
        from: "first_column, first_column + kColumns, steps, step)",
        to: "first_column + kColumns, first_column + 2 * kColumns, steps, step)",
        occurrence: 0,
    },
    Bug {
        name: "off by one at the causal edge",
        file: "attention.cuh",
        sources: &["attention"],
        from: "token <= work.limit(row)",
        to: "token < work.limit(row)",
        occurrence: 0,
    },
    Bug {
        name: "a step that does not see its own token",
        file: "attention.cuh",
        sources: &["attention"],
        from: "const bool valid = token <= work.last;",
        to: "const bool valid = token < work.last;",
        occurrence: 0,
    },
    Bug {
        name: "units folded in another order",
        file: "attention.cuh",
        sources: &["attention"],
        from: "for (u32 unit = 0; unit < work.units; unit++) {\n      const float* from",
        to: "for (u32 unit = work.units; unit-- > 0;) {\n      const float* from",
        occurrence: 0,
    },
    Bug {
        name: "additions that depend on the row tile",
        file: "gemm.cuh",
        sources: &["gemm_bf16", "moe"],
        from: "if (slice_start(slice + 1, steps) == step + 1) {",
        to: "if (step + 1 == steps) {",
        occurrence: 0,
    },
    Bug {
        name: "a lane that takes its partner's place too early",
        file: "rope.cu",
        sources: &["rope"],
        from: "head[i] = times(times(head[i], scale), gain[i]);\n    sync_warp();",
        to: "head[i] = times(times(head[i], scale), gain[i]);",
        occurrence: 0,
    },
    Bug {
        name: "a shared variable reused without a barrier",
        file: "gpu/warp.cuh",
        sources: &["norm"],
        from: "  if (lane_id() == 0) partial[threadIdx.x / 32] = value;\n  __syncthreads();\n",
        to: "  if (lane_id() == 0) partial[threadIdx.x / 32] = value;\n",
        occurrence: 0,
    },
    Bug {
        name: "row count ignored",
        file: "norm.cu",
        sources: &["norm"],
        from: "  if (row >= *rows) return;\n",
        to: "",
        occurrence: 0,
    },
    Bug {
        name: "a sum that not all lanes have written",
        file: "sample.cu",
        sources: &["sample"],
        from: "  if (lane_id() == 0) partial[threadIdx.x / 32] = value;\n  __syncthreads();\n",
        to: "  if (lane_id() == 0) partial[threadIdx.x / 32] = value;\n",
        occurrence: 0,
    },
    Bug {
        name: "negative logits ranked backwards",
        file: "sample.cu",
        sources: &["sample"],
        from: "? ~bits : bits | 0x80000000u;",
        to: "? bits & 0x7fffffffu : bits | 0x80000000u;",
        occurrence: 0,
    },
    Bug {
        name: "a share of all tokens instead of those that are left",
        file: "sample.cu",
        sources: &["sample"],
        from: "double(w.top_p) * kept",
        to: "double(w.top_p) * candidates.reached(0, false)",
        occurrence: 0,
    },
    Bug {
        name: "half of the seed",
        file: "sample.cu",
        sources: &["sample"],
        from: "uniform(w.seed_low, w.seed_high,",
        to: "uniform(w.seed_low, w.seed_low,",
        occurrence: 0,
    },
    Bug {
        name: "mask bits from the wrong end",
        file: "sample.cu",
        sources: &["sample"],
        from: ">> i % 32 & 1",
        to: ">> (31 - i % 32) & 1",
        occurrence: 0,
    },
    Bug {
        name: "a penalty for tokens of the prompt",
        file: "sample.cu",
        sources: &["sample"],
        from: "if (entry[2]) value",
        to: "if (entry[1]) value",
        occurrence: 0,
    },
    Bug {
        name: "a row's last candidates left out",
        file: "sample.cu",
        sources: &["sample"],
        from: "const u32 end = first + each < width ? first + each : width;",
        to: "const u32 end = first + each < width ? first + each : width - 1;",
        occurrence: 0,
    },
];
