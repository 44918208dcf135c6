//! Hyper-connections of one sublayer, and their end in front of the output head.

use sluicegate_kernels::hyper::{HyperHead, HyperPre};
use sluicegate_kernels::ops::{Act, Linear, Operand, Ops, Vector};

use crate::layers::{LoadError, matrix, named};
use crate::weights::{Dtype, Loader, Tensor};

/// Tensors `NAME_fn`, `NAME_scale`, `NAME_base`.
#[derive(Debug)]
pub(super) struct HyperWeights {
    function: Tensor,
    scale: Vec<f32>,
    base: Vec<f32>,
}

impl HyperWeights {
    /// `outputs` mixing numbers from streams of `width` altogether, with `scales` factors.
    pub(super) fn load(load: &mut Loader<'_>, name: &str, outputs: usize, width: usize, scales: usize) -> Self {
        let function = load.tensor(&format!("{name}_fn"), &[outputs, width], &[Dtype::F32, Dtype::Bf16]);
        let scale = load.vector(&format!("{name}_scale"), scales);
        Self { function, scale, base: load.vector(&format!("{name}_base"), outputs) }
    }

    fn build<D: Ops>(&self, device: &mut D) -> Result<(Linear, Vector, Vector), LoadError> {
        let name = self.function.name();
        let function = matrix::float(&self.function).map_err(named(name))?;
        let function = device.stack(&[&function]).map_err(named(name))?;
        Ok((function, device.vector(&self.scale), device.vector(&self.base)))
    }
}

/// Buffers that all sublayers share.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyperBuffers {
    pub(super) streams: Act,
    pub(super) projected: Act,
    pub(super) input: Act,
    pub(super) mix: Act,
}

/// Numbers that all sublayers share.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyperRule {
    pub(super) norm_eps: f32,
    pub(super) eps: f32,
    pub(super) iterations: usize,
}

/// Hyper-connections of a sublayer on a device.
#[derive(Debug)]
pub(super) struct Hyper {
    function: Linear,
    pre: HyperPre,
}

impl Hyper {
    pub(super) fn build<D: Ops>(
        w: &HyperWeights,
        device: &mut D,
        b: HyperBuffers,
        rule: HyperRule,
    ) -> Result<Self, LoadError> {
        let (function, scale, base) = w.build(device)?;
        let HyperBuffers { streams, projected, input, mix } = b;
        let HyperRule { norm_eps, eps, iterations } = rule;
        Ok(Self { function, pre: HyperPre { streams, projected, scale, base, norm_eps, eps, iterations, input, mix } })
    }

    /// The linear that reads the streams.
    pub(super) fn function(&self) -> Linear {
        self.function
    }

    /// Makes the sublayer's input; `streams` is the operand of [`Self::function`].
    pub(super) fn before<D: Ops>(&self, device: &mut D, streams: Operand) {
        device.convert(self.pre.streams, streams);
        device.linear(streams, self.function, self.pre.projected);
        device.hyper_pre(&self.pre);
    }

    /// Takes the sublayer's output into the streams.
    pub(super) fn after<D: Ops>(&self, device: &mut D, output: Act) {
        device.hyper_post(output, self.pre.mix, self.pre.streams);
    }
}

/// The streams' sum in front of the final norm, for the rows to sample.
#[derive(Debug)]
pub(super) struct HyperEnd {
    function: Linear,
    head: HyperHead,
    operand: Operand,
}

impl HyperEnd {
    pub(super) fn build<D: Ops>(
        w: &HyperWeights,
        device: &mut D,
        streams: usize,
        rule: HyperRule,
        out: Act,
    ) -> Result<Self, LoadError> {
        use sluicegate_kernels::ops::Rows;
        let (function, scale, base) = w.build(device)?;
        let head = HyperHead {
            streams: device.act(Rows::Samples, streams * out.width()),
            projected: device.act(Rows::Samples, streams),
            scale,
            base,
            norm_eps: rule.norm_eps,
            eps: rule.eps,
            out,
        };
        Ok(Self { function, head, operand: device.operand(Rows::Samples, &[function]) })
    }

    pub(super) fn forward<D: Ops>(&self, device: &mut D, streams: Act) {
        device.gather(streams, self.head.streams);
        device.convert(self.head.streams, self.operand);
        device.linear(self.operand, self.function, self.head.projected);
        device.hyper_head(&self.head);
    }
}
