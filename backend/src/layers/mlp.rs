//! The dense feed-forward: SwiGLU.

use sluicegate_kernels::ops::{Act, Linear, Operand, Ops};

use super::decoder::FeedForward;
use super::{LoadError, matrix, named};
use crate::weights::{self, Loader};

/// Tensors of one layer, as the checkpoint has them.
#[derive(Debug)]
pub struct MlpWeights {
    prefix: String,
    gate: weights::Linear,
    up: weights::Linear,
    down: weights::Linear,
}

impl MlpWeights {
    /// Takes `PREFIX.{gate,up,down}_proj`.
    pub fn load(load: &mut Loader<'_>, prefix: String, hidden: usize, inner: usize) -> Self {
        let mut take = |name: &str, rows, cols| load.linear(&format!("{prefix}.{name}_proj"), rows, cols);
        let (gate, up, down) = (take("gate", inner, hidden), take("up", inner, hidden), take("down", hidden, inner));
        Self { prefix, gate, up, down }
    }
}

/// Feed-forward of one layer on a device.
#[derive(Debug)]
pub struct Mlp {
    gate_up: Linear,
    down: Linear,
}

impl FeedForward for Mlp {
    type Weights = MlpWeights;

    fn build<D: Ops>(w: &MlpWeights, device: &mut D) -> Result<Self, LoadError> {
        let refused = || named(&w.prefix);
        let (gate, up) = (matrix::linear(&w.gate).map_err(refused())?, matrix::linear(&w.up).map_err(refused())?);
        let down = matrix::linear(&w.down).map_err(refused())?;
        let gate_up = device.gated(&gate, &up).map_err(refused())?;
        Ok(Self { gate_up, down: device.stack(&[&down]).map_err(refused())? })
    }

    fn inputs(&self) -> Vec<Linear> {
        vec![self.gate_up]
    }

    fn inner(&self) -> Option<Linear> {
        Some(self.down)
    }

    /// `x += down(silu(gate(normed)) * up(normed))`.
    fn forward<D: Ops>(&self, device: &mut D, normed: Operand, inner: Option<Operand>, x: Act) {
        let inner = inner.expect("the operand of `inner`");
        device.linear_gated(normed, self.gate_up, None, inner);
        device.linear_add(inner, self.down, x);
    }
}
