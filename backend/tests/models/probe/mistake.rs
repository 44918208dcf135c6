//! Ways to get DeepSeek-V4 wrong.

use sluicegate_kernels::hyper::HyperPre;
use sluicegate_kernels::moe::{Route, Score};
use sluicegate_kernels::ops::Build;
use sluicegate_kernels::sparse::{Compress, FinishRows, RotateTails, Select, SparseAttention};

use super::Probe;

/// One thing done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    NarrowWindow,
    WideWindow,
    NoSink,
    NoInverseRope,
    WindowLayersUseCompressedRope,
    CompressedLayersUsePlainRope,
    NoQueryNorm,
    NoCompressedRows,
    AllCompressedRows,
    NegativeIndexWeights,
    UnrotatedCompressedRows,
    TwoSinkhornIterations,
    NoRouterBias,
    NoHashRouting,
    SoftmaxRouting,
    UnnormalizedRouting,
    NoRoutedFactor,
    NoClamp,
}

/// All of them, with a golden prompt that is long enough to see each.
pub(crate) const MISTAKES: [(Mistake, &str); 18] = [
    (Mistake::NarrowWindow, "p37"),
    (Mistake::WideWindow, "p37"),
    (Mistake::NoSink, "p5"),
    (Mistake::NoInverseRope, "p5"),
    (Mistake::WindowLayersUseCompressedRope, "p5"),
    (Mistake::CompressedLayersUsePlainRope, "p37"),
    (Mistake::NoQueryNorm, "p5"),
    (Mistake::NoCompressedRows, "p37"),
    (Mistake::AllCompressedRows, "p37"),
    (Mistake::NegativeIndexWeights, "p37"),
    (Mistake::UnrotatedCompressedRows, "p37"),
    (Mistake::TwoSinkhornIterations, "p5"),
    (Mistake::NoRouterBias, "p37"),
    (Mistake::NoHashRouting, "p5"),
    (Mistake::SoftmaxRouting, "p5"),
    (Mistake::UnnormalizedRouting, "p5"),
    (Mistake::NoRoutedFactor, "p5"),
    (Mistake::NoClamp, "p5"),
];

impl Probe {
    /// Makes what the mistakes need.
    pub(super) fn prepare(&mut self) {
        let still = self.cpu.rope(&[0.0; 32], 1.0);
        self.ropes.push(still);
        self.low = Some(self.cpu.vector(&[-1e30; 64]));
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn still(&self) -> sluicegate_kernels::ops::Rope {
        self.ropes[2]
    }

    /// The rope that a layer should not use.
    fn wrong_rope(&self, rope: sluicegate_kernels::ops::Rope) -> sluicegate_kernels::ops::Rope {
        let [plain, compressed] = [self.ropes[0], self.ropes[1]];
        match self.mistake {
            Some(Mistake::WindowLayersUseCompressedRope) if rope == plain => compressed,
            Some(Mistake::CompressedLayersUsePlainRope) if rope == compressed => plain,
            _ => rope,
        }
    }

    pub(super) fn spoil_rotation(&self, a: &mut RotateTails) {
        a.rope = self.wrong_rope(a.rope);
        if self.is(Mistake::NoQueryNorm) {
            a.norm_eps = None;
        }
    }

    pub(super) fn spoil_finish(&self, a: &mut FinishRows) {
        a.rope = self.wrong_rope(a.rope);
    }

    pub(super) fn spoil_compress(&self, a: &mut Compress) {
        a.rope = self.wrong_rope(a.rope);
        if self.is(Mistake::UnrotatedCompressedRows) {
            a.rope = self.still();
        }
    }

    pub(super) fn spoil_select(&self, a: &mut Select) {
        if self.is(Mistake::NegativeIndexWeights) {
            a.factor = -a.factor;
        }
    }

    pub(super) fn spoil_attention(&self, a: &mut SparseAttention) {
        a.rope = self.wrong_rope(a.rope);
        match self.mistake {
            Some(Mistake::NarrowWindow) => a.window -= 1,
            Some(Mistake::WideWindow) => {
                a.window += 1;
                a.earlier.ring += 1;
            }
            Some(Mistake::NoSink) => a.sinks = self.low.unwrap_or(a.sinks),
            Some(Mistake::NoInverseRope) => a.rope = self.still(),
            Some(Mistake::NoCompressedRows) => a.compressed = None,
            Some(Mistake::AllCompressedRows) => a.compressed.iter_mut().for_each(|c| c.picks = None),
            _ => {}
        }
    }

    pub(super) fn spoil_hyper(&self, a: &mut HyperPre) {
        if self.is(Mistake::TwoSinkhornIterations) {
            a.iterations = 2;
        }
    }

    pub(super) fn spoil_route(&self, a: &mut Route) {
        match self.mistake {
            Some(Mistake::NoRouterBias) => a.bias = None,
            Some(Mistake::NoHashRouting) => a.by_token = None,
            Some(Mistake::SoftmaxRouting) => a.score = Score::Softmax,
            Some(Mistake::UnnormalizedRouting) => a.normalize = false,
            Some(Mistake::NoRoutedFactor) => a.factor = 1.0,
            _ => {}
        }
    }

    pub(super) fn limit(&self, limit: Option<f32>) -> Option<f32> {
        limit.filter(|_| !self.is(Mistake::NoClamp))
    }
}
