//! Programs with known answers: random inputs, and a check against double precision.

mod attention;
mod compress;
mod fp4;
mod gemm;
mod hyper;
mod moe;
mod rope;
mod rows;
mod sample;
mod sparse;
mod sparse_attend;

use crate::program::Program;

/// Compares what a program left in its buffers with what it should have.
pub type Check = Box<dyn Fn(&Program) -> Result<(), String> + Send + Sync>;

/// A program and its answer.
pub struct Case {
    /// Kernel and shape.
    pub name: String,
    /// Buffers and launches.
    pub program: Program,
    /// Says what is wrong.
    pub check: Check,
}

impl Case {
    fn new(
        name: impl Into<String>,
        program: Program,
        check: impl Fn(&Program) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), program, check: Box::new(check) }
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A group of cases, by the source file that they exercise.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Name of the `.cu` file without its ending.
    pub source: &'static str,
    /// Makes the cases.
    pub cases: fn() -> Vec<Case>,
}

/// All groups.
pub const GROUPS: &[Group] = &[
    Group { source: "norm", cases: rows::norm },
    Group { source: "rows", cases: rows::rows },
    Group { source: "embed", cases: rows::embed },
    Group { source: "rope", cases: rope::rope },
    Group { source: "attention", cases: attention::attention },
    Group { source: "gemm_nvfp4", cases: gemm::nvfp4 },
    Group { source: "gemm_bf16", cases: gemm::bf16_cases },
    Group { source: "gemm_fp8", cases: gemm::fp8 },
    Group { source: "gemm_f32", cases: gemm::f32_cases },
    Group { source: "quantize", cases: fp4::quantize },
    Group { source: "gemm_w4a4", cases: fp4::w4a4 },
    Group { source: "moe", cases: moe::moe },
    Group { source: "hyper", cases: hyper::hyper },
    Group { source: "sparse_rows", cases: sparse::rows },
    Group { source: "sparse_attend", cases: sparse_attend::attend },
    Group { source: "sample", cases: sample::sample },
];
