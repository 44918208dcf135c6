//! Hyper-connections on the GPU.

use super::Cuda;
use crate::cuda::calls::{self, MixBy};
use crate::hyper::{HyperHead, HyperOps, HyperPre};
use crate::ops::{Act, Vector};

impl Cuda {
    fn mix_by(&self, scale: Vector, base: Vector, norm_eps: f32, eps: f32) -> MixBy {
        let at = |v: Vector| self.vectors[v.0 as usize].values.at();
        MixBy { scale: at(scale), base: at(base), norm_eps, eps }
    }
}

impl HyperOps for Cuda {
    fn hyper_pre(&mut self, args: &HyperPre) {
        let by = self.mix_by(args.scale, args.base, args.norm_eps, args.eps);
        let outputs = [self.floats(args.input), self.floats(args.mix)];
        let (streams, projected, rows) =
            (self.floats(args.streams), self.floats(args.projected), self.rows_of(args.streams));
        self.add(calls::hyper_pre(streams, projected, by, args.iterations as u32, outputs, rows));
    }

    fn hyper_post(&mut self, output: Act, mix: Act, streams: Act) {
        let rows = self.rows_of(streams);
        self.add(calls::hyper_post(self.floats(output), self.floats(mix), self.floats(streams), rows));
    }

    fn hyper_head(&mut self, args: &HyperHead) {
        let by = self.mix_by(args.scale, args.base, args.norm_eps, args.eps);
        let (streams, projected, out) = (self.floats(args.streams), self.floats(args.projected), self.floats(args.out));
        self.add(calls::hyper_head(streams, projected, by, out, self.rows_of(args.streams)));
    }
}
