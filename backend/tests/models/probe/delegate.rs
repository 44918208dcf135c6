//! Passes every operation on to the CPU, looking at some and spoiling others.

use sluicegate_kernels::batch::Batch;
use sluicegate_kernels::hyper::{HyperHead, HyperOps, HyperPre};
use sluicegate_kernels::moe::{Experts, MoeOps, Picks, Route, RunExperts, TokenExperts};
use sluicegate_kernels::ops::{
    Act, Attention, Build, DeviceError, HostRows, Linear, Operand, Ops, Pool, Rope, RopeAppend, Rows, State, Step,
    Table, Vector,
};
use sluicegate_kernels::sparse::{AppendRows, Compress, RotateTails, Select, SparseAttention, SparseOps};
use sluicegate_kernels::tensor::{BuildError, Matrix};

use super::Probe;

macro_rules! pass {
    ($(fn $name:ident(&mut self $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)?;)*) => { $(
        fn $name(&mut self $(, $arg: $ty)*) $(-> $ret)? {
            self.cpu.$name($($arg),*)
        }
    )* };
}

impl Build for Probe {
    pass! {
        fn vector(&mut self, values: &[f32]) -> Vector;
        fn table(&mut self, matrix: &Matrix) -> Result<Table, BuildError>;
        fn stack(&mut self, parts: &[&Matrix]) -> Result<Linear, BuildError>;
        fn gated(&mut self, gate: &Matrix, up: &Matrix) -> Result<Linear, BuildError>;
        fn head(&mut self, matrix: &Matrix) -> Result<Linear, BuildError>;
        fn act(&mut self, rows: Rows, width: usize) -> Act;
        fn operand(&mut self, rows: Rows, readers: &[Linear]) -> Operand;
        fn pool(&mut self, row_bytes: usize, tokens_per_row: usize) -> Result<Pool, BuildError>;
        fn state(&mut self, bytes: usize) -> Result<State, BuildError>;
    }

    fn rope(&mut self, frequencies: &[f64], factor: f64) -> Rope {
        let rope = self.cpu.rope(frequencies, factor);
        self.ropes.push(rope);
        rope
    }
}

impl MoeOps for Probe {
    pass! {
        fn picks(&mut self, k: usize) -> Picks;
        fn token_experts(&mut self, ids: &[u32], k: usize) -> TokenExperts;
        fn experts(&mut self, pairs: &[(Linear, Linear)]) -> Experts;
    }

    fn route(&mut self, args: &Route) {
        let mut args = *args;
        self.spoil_route(&mut args);
        self.cpu.route(&args);
        let logits = self.look(args.logits);
        let (ids, weights) = self.cpu.read_picks(args.out);
        self.routes.push((logits, ids.to_vec(), weights.to_vec()));
    }

    fn run_experts(&mut self, args: &RunExperts) {
        self.cpu.run_experts(&RunExperts { limit: self.limit(args.limit), ..*args });
    }

    fn read_picks(&self, picks: Picks) -> (&[u32], &[f32]) {
        self.cpu.read_picks(picks)
    }
}

impl HyperOps for Probe {
    fn hyper_pre(&mut self, args: &HyperPre) {
        let mut args = *args;
        self.spoil_hyper(&mut args);
        self.cpu.hyper_pre(&args);
        let seen = (self.look(args.input), self.look(args.mix));
        self.inputs.push(seen);
    }

    fn hyper_post(&mut self, output: Act, mix: Act, streams: Act) {
        self.cpu.hyper_post(output, mix, streams);
        let seen = self.look(streams);
        self.streams.push(seen);
    }

    fn hyper_head(&mut self, args: &HyperHead) {
        self.cpu.hyper_head(args);
    }
}

impl SparseOps for Probe {
    fn rotate_tails(&mut self, args: &RotateTails) {
        let mut args = *args;
        self.spoil_rotation(&mut args);
        self.cpu.rotate_tails(&args);
    }

    fn append_rows(&mut self, args: &AppendRows) {
        let mut args = *args;
        self.spoil_append(&mut args);
        self.cpu.append_rows(&args);
    }

    fn compress(&mut self, args: &Compress) {
        let mut args = *args;
        self.spoil_compress(&mut args);
        self.cpu.compress(&args);
    }

    fn select(&mut self, args: &Select) {
        let mut args = *args;
        self.spoil_select(&mut args);
        self.cpu.select(&args);
        self.selections.push(self.cpu.read_picks(args.out).0.to_vec());
    }

    fn sparse_attention(&mut self, args: &SparseAttention) {
        let mut args = *args;
        self.spoil_attention(&mut args);
        self.cpu.sparse_attention(&args);
    }
}

impl Ops for Probe {
    pass! {
        fn begin(&mut self, batch: &Batch<'_>) -> Result<Step, DeviceError>;
        fn embed(&mut self, table: Table, out: Act);
        fn rms_norm(&mut self, x: Act, gain: Vector, eps: f32, out: Operand);
        fn convert(&mut self, x: Act, out: Operand);
        fn linear(&mut self, x: Operand, w: Linear, out: Act);
        fn linear_add(&mut self, x: Operand, w: Linear, out: Act);
        fn rope_append(&mut self, args: &RopeAppend);
        fn attention(&mut self, args: &Attention, out: Operand);
        fn gather(&mut self, x: Act, out: Act);
        fn host(&mut self, x: Act) -> Result<HostRows<'_>, DeviceError>;
        fn write_block(&mut self, pool: Pool, block: u32, bytes: &[u8]);
        fn write_state(&mut self, state: State, slot: u32, bytes: &[u8]);
    }

    fn linear_gated(&mut self, x: Operand, w: Linear, limit: Option<f32>, out: Operand) {
        self.cpu.linear_gated(x, w, self.limit(limit), out);
    }

    fn read_block(&self, pool: Pool, block: u32, out: &mut [u8]) {
        self.cpu.read_block(pool, block, out);
    }

    fn read_state(&self, state: State, slot: u32, out: &mut [u8]) {
        self.cpu.read_state(state, slot, out);
    }
}
