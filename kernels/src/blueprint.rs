//! A device that holds nothing and runs nothing: it counts what a model would allocate.

use crate::batch::{Batch, Limits};
use crate::hyper::{HyperHead, HyperOps, HyperPre};
use crate::moe::{Experts, MoeOps, Picks, Route, RunExperts, TokenExperts};
use crate::ops::{
    Act, Attention, Build, DeviceError, HostRows, Linear, Operand, Ops, Pool, Rope, RopeAppend, Rows, State, Step,
    Table, Vector,
};
use crate::sparse::{Compress, FinishRows, RotateTails, Select, SparseAttention, SparseOps, WindowPool};
use crate::tensor::{BuildError, Matrix};

/// Bytes that a model asked for.
#[derive(Clone, Debug)]
pub struct Blueprint {
    limits: Limits,
    next: u32,
    /// Weights, in the checkpoint's number formats.
    pub weights: usize,
    /// Activation buffers, for the limits' rows.
    pub activations: usize,
}

impl Blueprint {
    /// Nothing yet; activations will be counted for these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, next: 0, weights: 0, activations: 0 }
    }

    fn id(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn take(&mut self, parts: &[&Matrix]) -> Result<Linear, BuildError> {
        for m in parts {
            m.check()?;
            self.weights += m.bytes();
        }
        Ok(Linear(self.id()))
    }
}

impl Build for Blueprint {
    fn vector(&mut self, values: &[f32]) -> Vector {
        self.weights += size_of_val(values);
        Vector(self.id())
    }

    fn table(&mut self, matrix: &Matrix) -> Result<Table, BuildError> {
        self.take(&[matrix]).map(|l| Table(l.0))
    }

    fn stack(&mut self, parts: &[&Matrix]) -> Result<Linear, BuildError> {
        self.take(parts)
    }

    fn gated(&mut self, gate: &Matrix, up: &Matrix) -> Result<Linear, BuildError> {
        self.take(&[gate, up])
    }

    fn head(&mut self, matrix: &Matrix) -> Result<Linear, BuildError> {
        self.take(&[matrix])
    }

    fn rope(&mut self, _frequencies: &[f64], _factor: f64) -> Rope {
        Rope(self.id())
    }

    fn act(&mut self, rows: Rows, width: usize) -> Act {
        let most = if rows == Rows::Batch { self.limits.rows } else { self.limits.samples };
        self.activations += most * width * size_of::<f32>();
        Act { id: self.id(), from: 0, width: width as u32 }
    }

    fn operand(&mut self, _rows: Rows, _readers: &[Linear]) -> Operand {
        Operand(self.id())
    }

    fn pool(&mut self, _row_bytes: usize, _tokens_per_row: usize) -> Result<Pool, BuildError> {
        Ok(Pool(self.id()))
    }

    fn state(&mut self, _bytes: usize) -> Result<State, BuildError> {
        Ok(State(self.id()))
    }
}

impl MoeOps for Blueprint {
    fn picks(&mut self, k: usize) -> Picks {
        self.activations += self.limits.rows * k * size_of::<(u32, f32)>();
        Picks(self.id())
    }

    fn token_experts(&mut self, ids: &[u32], _k: usize) -> TokenExperts {
        self.weights += size_of_val(ids);
        TokenExperts(self.id())
    }

    fn experts(&mut self, _pairs: &[(Linear, Linear)]) -> Experts {
        Experts(self.id())
    }

    fn route(&mut self, _: &Route) {}
    fn run_experts(&mut self, _: &RunExperts) {}

    fn read_picks(&self, _: Picks) -> (&[u32], &[f32]) {
        (&[], &[])
    }
}

impl crate::draw::DrawOps for Blueprint {}

impl crate::peer::PeerOps for Blueprint {}

impl HyperOps for Blueprint {
    fn hyper_pre(&mut self, _: &HyperPre) {}
    fn hyper_post(&mut self, _: Act, _: Act, _: Act) {}
    fn hyper_head(&mut self, _: &HyperHead) {}
}

impl SparseOps for Blueprint {
    fn rotate_tails(&mut self, _: &RotateTails) {}
    fn finish_rows(&mut self, _: &FinishRows) {}
    fn keep_rows(&mut self, _: Act, _: &WindowPool) {}
    fn preceding_rows(&mut self, _: Act, _: &WindowPool, _: Act) {}
    fn compress(&mut self, _: &Compress) {}
    fn select(&mut self, _: &Select) {}
    fn sparse_attention(&mut self, _: &SparseAttention) {}
}

impl Ops for Blueprint {
    fn begin(&mut self, _: &Batch<'_>) -> Result<Step, DeviceError> {
        Err(DeviceError("a blueprint runs nothing".into()))
    }

    fn embed(&mut self, _: Table, _: Act) {}
    fn rms_norm(&mut self, _: Act, _: Vector, _: f32, _: Operand) {}
    fn convert(&mut self, _: Act, _: Operand) {}
    fn linear(&mut self, _: Operand, _: Linear, _: Act) {}
    fn linear_add(&mut self, _: Operand, _: Linear, _: Act) {}
    fn linear_gated(&mut self, _: Operand, _: Linear, _: Option<f32>, _: Operand) {}
    fn rope_append(&mut self, _: &RopeAppend) {}
    fn attention(&mut self, _: &Attention, _: Operand) {}
    fn gather(&mut self, _: Act, _: Act) {}

    fn host(&mut self, _: Act) -> Result<HostRows<'_>, DeviceError> {
        Err(DeviceError("a blueprint holds nothing".into()))
    }

    fn read_block(&self, _: Pool, _: u32, _: &mut [u8]) {}
    fn write_block(&mut self, _: Pool, _: u32, _: &[u8]) {}
    fn read_state(&self, _: State, _: u32, _: &mut [u8]) {}
    fn write_state(&mut self, _: State, _: u32, _: &[u8]) {}
}
