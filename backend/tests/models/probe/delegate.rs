//! Passes every operation on to the CPU, looking at some and spoiling others.

use sluicegate_kernels::batch::Batch;
use sluicegate_kernels::hyper::{HyperHead, HyperOps, HyperPre};
use sluicegate_kernels::moe::{Experts, MoeOps, Picks, Route, RunExperts, TokenExperts};
use sluicegate_kernels::ops::{
    Act, Attention, Build, DeviceError, HostRows, Linear, Operand, Ops, Pool, Rope, RopeAppend, Rows, State, Step,
    Table, Vector,
};
use sluicegate_kernels::sparse::{Compress, FinishRows, RotateTails, Select, SparseAttention, SparseOps, WindowPool};
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
        let args = RunExperts { limit: self.limit(args.limit), ..*args };
        // Without streams, experts add to the residual one after another: their sum is what it gains.
        let before = self.inputs.is_empty().then(|| self.look(args.out));
        self.cpu.run_experts(&args);
        if let Some(before) = before {
            let after = self.look(args.out);
            let gained = |(a, b): (&Vec<f32>, &Vec<f32>)| a.iter().zip(b).map(|(a, b)| a - b).collect();
            self.outputs.push(after.iter().zip(&before).map(gained).collect());
        }
    }

    fn read_picks(&self, picks: Picks) -> (&[u32], &[f32]) {
        self.cpu.read_picks(picks)
    }
}

impl sluicegate_kernels::draw::DrawOps for Probe {}

impl sluicegate_kernels::peer::PeerOps for Probe {}

impl HyperOps for Probe {
    fn hyper_pre(&mut self, args: &HyperPre) {
        let mut args = *args;
        self.spoil_hyper(&mut args);
        self.cpu.hyper_pre(&args);
        let seen = (self.look(args.input), self.look(args.mix));
        self.inputs.push(seen);
    }

    fn hyper_post(&mut self, output: Act, mix: Act, streams: Act) {
        let seen = self.look(output);
        self.outputs.push(seen);
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

    fn finish_rows(&mut self, args: &FinishRows) {
        let mut args = *args;
        self.spoil_finish(&mut args);
        self.cpu.finish_rows(&args);
    }

    fn keep_rows(&mut self, rows: Act, to: &WindowPool) {
        self.cpu.keep_rows(rows, to);
    }

    fn preceding_rows(&mut self, rows: Act, kept: &WindowPool, out: Act) {
        self.cpu.preceding_rows(rows, kept, out);
    }

    fn compress(&mut self, args: &Compress) {
        let mut args = *args;
        self.spoil_compress(&mut args);
        self.cpu.compress(&args);
        let rows = self.look_at_rows(&args, self.tokens);
        self.compressed.push(rows);
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
        fn embed(&mut self, table: Table, out: Act);
        fn convert(&mut self, x: Act, out: Operand);
        fn linear(&mut self, x: Operand, w: Linear, out: Act);
        fn rope_append(&mut self, args: &RopeAppend);
        fn attention(&mut self, args: &Attention, out: Operand);
        fn gather(&mut self, x: Act, out: Act);
        fn host(&mut self, x: Act) -> Result<HostRows<'_>, DeviceError>;
        fn write_block(&mut self, pool: Pool, block: u32, bytes: &[u8]);
        fn write_state(&mut self, state: State, slot: u32, bytes: &[u8]);
    }

    fn begin(&mut self, batch: &Batch<'_>) -> Result<Step, DeviceError> {
        self.tokens = batch.tokens.len();
        self.cpu.begin(batch)
    }

    fn rms_norm(&mut self, x: Act, gain: Vector, eps: f32, out: Operand) {
        self.cpu.rms_norm(x, gain, eps, out);
        if x.width() == super::HIDDEN {
            // The last norm works on the rows to sample, and comes after one for each sublayer.
            let rows = if self.norms.len() == self.sublayers { Rows::Samples } else { Rows::Batch };
            let seen = (self.look(x), self.look_into(out, rows));
            self.norms.push(seen);
        }
    }

    fn linear_add(&mut self, x: Operand, w: Linear, out: Act) {
        let (_, rooms) = self.unit.expect("made before the step");
        self.cpu.linear(x, w, rooms[0]);
        let seen = self.look(rooms[0]);
        self.outputs.push(seen);
        self.cpu.linear_add(x, w, out);
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
