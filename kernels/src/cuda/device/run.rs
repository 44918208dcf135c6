//! Running on the GPU: each operation adds launches to the step; `host` records and runs them.

use super::weights::{PackedPart, Part, TableRows};
use super::{Cuda, UnitMemory};
use crate::batch::Batch;
use crate::cuda::call::{Call, Floats, RowCount};
use crate::cuda::calls::{self, Finish, HeadGains, KvPlace, RopeRows};
use crate::ops::{
    Act, Attention, DeviceError, HostRows, KvShape, KvStore, Linear, Operand, Ops, Pool, RopeAppend, RopePairs, State,
    Step, Table, Vector,
};

impl Cuda {
    pub(super) fn rows_of(&self, act: Act) -> RowCount {
        self.step.launch_rows(self.acts[act.id as usize].rows)
    }

    /// Columns `from..from + width`.
    fn part(all: Floats, from: usize, width: usize) -> Floats {
        Floats { at: all.at.plus(from * 4), stride: all.stride, width: width as u32 }
    }

    /// Adds a product with packed weights, after the quantization of its input where they meet FP4.
    fn product(&self, x: Operand, p: &PackedPart, finish: Finish, rows: RowCount, added: &mut Vec<Call>) {
        let (input, operand) = (self.inputs(x), &self.operands[x.0 as usize]);
        match &operand.fp4 {
            Some(fp4) if p.fp4 => {
                added.push(calls::quantize_nvfp4(input, operand.cols as u32, fp4.at, rows));
                added.push(calls::gemm_w4a4(fp4.at, p.at, finish, rows));
            }
            _ => added.push(calls::gemm(input, p.at, finish, rows, self.knobs.tile(rows.most))),
        }
    }

    fn project(&mut self, x: Operand, w: Linear, out: Act, add: bool) {
        let (input, rows, out_floats) = (self.inputs(x), self.rows_of(out), self.floats(out));
        let linear = &self.linears[w.0 as usize];
        let cols = self.operands[x.0 as usize].cols;
        assert!(linear.rows() == out.width() && linear.cols == cols, "linear {w:?} does not fit {out:?}");
        let mut from = 0;
        let mut added = Vec::with_capacity(linear.parts.len());
        for part in &linear.parts {
            let to = Self::part(out_floats, from, part.rows());
            from += part.rows();
            match part {
                Part::Packed(p) => {
                    let finish = if add { Finish::Add(to) } else { Finish::Store(to) };
                    self.product(x, p, finish, rows, &mut added);
                }
                Part::Plain { values, .. } => {
                    let x = Floats { at: input.floats, stride: input.float_stride, width: cols as u32 };
                    added.push(calls::gemm_f32(x, values.at(), to, add, rows));
                }
                Part::Moved { .. } => panic!("linear {w:?} belongs to a layer of experts"),
            }
        }
        added.into_iter().for_each(|call| self.add(call));
    }

    /// A gate and an up that are not interleaved: both products, then their combination.
    fn gated_apart(&mut self, x: Operand, w: Linear, limit: f32, out: Operand) {
        let Some(gates) = &self.gates else { return };
        let both = Floats { at: gates.values.at(), stride: gates.stride as u32, width: 0 };
        let (input, target) = (self.inputs(x), self.inputs(out));
        let rows = self.step.launch_rows(self.operands[out.0 as usize].rows);
        let linear = &self.linears[w.0 as usize];
        let mut from = 0;
        let mut added = Vec::new();
        for part in &linear.parts {
            let to = Self::part(both, from, part.rows());
            from += part.rows();
            match part {
                Part::Packed(p) => self.product(x, p, Finish::Store(to), rows, &mut added),
                Part::Plain { values, .. } => {
                    let x = Floats { at: input.floats, stride: input.float_stride, width: linear.cols as u32 };
                    added.push(calls::gemm_f32(x, values.at(), to, false, rows));
                }
                Part::Moved { .. } => panic!("linear {w:?} belongs to a layer of experts"),
            }
        }
        let half = from / 2;
        let (gate, up) = (Self::part(both, 0, half), Self::part(both, half, half));
        added.push(calls::silu_up(gate, up.at, limit, target, rows));
        added.into_iter().for_each(|call| self.add(call));
    }

    fn place_of(&mut self, pool: Pool, kv: KvShape) -> Option<KvPlace> {
        if kv.store != KvStore::Bf16 {
            let text = format!("the CUDA device keeps keys and values in bf16, not {:?}", kv.store);
            self.failure.get_or_insert(DeviceError(text));
            return None;
        }
        Some(KvPlace {
            pool: self.pools[pool.0 as usize].memory.at(),
            heads: kv.heads as u32,
            dim: kv.head_dim as u32,
            block_tokens: self.limits.block_tokens as u32,
        })
    }

    /// Copies a unit out. Its readers can't be told of a failure; zeros, and the next step says what is wrong.
    fn read_unit(&self, units: &UnitMemory, index: u32, out: &mut [u8]) {
        if self.stream.download(units.at(index), out).is_err() {
            out.fill(0);
        }
    }

    /// Records the collected launches, and runs the recording.
    fn run_collected(&mut self) -> Result<(), DeviceError> {
        let Self { kernels, stream, calls, .. } = self;
        let recording = stream.record(|| calls.iter().try_for_each(|call| kernels.launch(stream, call)))?;
        calls.clear();
        self.stream.replay(&recording)?;
        self.recordings.insert(self.step.bucket, recording);
        Ok(())
    }

    fn start(&mut self, batch: &Batch<'_>) -> Result<Step, DeviceError> {
        self.check()?;
        // Its pinned lists may still be read by the step before, if nobody asked for that step's results.
        self.stream.finish()?;
        self.step.load(batch, &mut self.angles, &self.stream)?;
        for list in &mut self.tiles {
            list.load(&self.step, &self.stream)?;
        }
        if let Some(extents) = &mut self.extents {
            extents.load(&self.step, &self.stream)?;
        }
        for groups in &mut self.groups {
            groups.load(&self.step, &self.angles, &self.stream)?;
        }
        self.calls.clear();
        let known = self.recordings.get(&self.step.bucket);
        self.is_recording = known.is_none();
        match known {
            Some(recording) => self.stream.replay(recording).map(|()| Step::Replayed),
            None => Ok(Step::Run),
        }
    }

    /// Runs the step, if it is not running as a recording already.
    pub(super) fn finish_recording(&mut self) -> Result<(), DeviceError> {
        self.check()?;
        self.stream.bind()?;
        if std::mem::take(&mut self.is_recording) {
            self.run_collected()?;
        }
        Ok(())
    }

    fn show(&mut self, x: Act) -> Result<(), DeviceError> {
        self.finish_recording()?;
        let most = self.most(self.acts[x.id as usize].rows);
        let memory = &mut self.acts[x.id as usize];
        let count = self.step.count(memory.rows) * memory.stride;
        let shown = match &mut memory.shown {
            Some(shown) => shown,
            none => none.insert(super::Pinned::zeroed(&self.context, most * memory.stride)?),
        };
        self.stream.download(memory.values.at(), &mut shown.values()[..count])
    }
}

impl Ops for Cuda {
    fn begin(&mut self, batch: &Batch<'_>) -> Result<Step, DeviceError> {
        let started = self.start(batch);
        if let Err(error) = &started {
            self.failure.get_or_insert(error.clone());
        }
        started
    }

    fn embed(&mut self, table: Table, out: Act) {
        let (rows, to, tokens) = (self.rows_of(out), self.floats(out), self.step.tokens());
        let memory = &self.tables[table.0 as usize];
        assert!(memory.cols == out.width(), "table {table:?} does not fit {out:?}");
        let call = match &memory.rows {
            TableRows::Plain { kernel, values } => calls::embed(kernel, values.at(), tokens, to, rows),
            TableRows::Nvfp4 { codes, scales, global } => {
                calls::embed_nvfp4((codes.at(), scales.at(), *global), tokens, to, rows)
            }
        };
        self.add(call);
    }

    fn rms_norm(&mut self, x: Act, gain: Vector, eps: f32, out: Operand) {
        let gain = &self.vectors[gain.0 as usize];
        assert!(gain.len == x.width(), "a gain of {} for {x:?}", gain.len);
        let call = calls::rms_norm(self.floats(x), gain.values.at(), eps, self.inputs(out), self.rows_of(x));
        self.add(call);
    }

    fn convert(&mut self, x: Act, out: Operand) {
        let call = calls::convert(self.floats(x), self.inputs(out), self.rows_of(x));
        self.add(call);
    }

    fn linear(&mut self, x: Operand, w: Linear, out: Act) {
        self.project(x, w, out, false);
    }

    fn linear_add(&mut self, x: Operand, w: Linear, out: Act) {
        self.project(x, w, out, true);
    }

    fn linear_gated(&mut self, x: Operand, w: Linear, limit: Option<f32>, out: Operand) {
        let limit = limit.unwrap_or(f32::INFINITY);
        let rows = self.step.launch_rows(self.operands[out.0 as usize].rows);
        match &self.linears[w.0 as usize].parts[..] {
            [Part::Packed(p)] => {
                let finish = Finish::Gated { out: self.inputs(out), limit };
                let mut added = Vec::new();
                self.product(x, p, finish, rows, &mut added);
                added.into_iter().for_each(|call| self.add(call));
            }
            _ => self.gated_apart(x, w, limit, out),
        }
    }

    fn rope_append(&mut self, args: &RopeAppend) {
        let Some(kv) = self.place_of(args.pool, args.kv) else { return };
        let angles = &self.angles[args.rope.0 as usize];
        let (cosines, sines) = angles.at();
        let interleaved = args.pairs == RopePairs::Interleaved;
        let rope = RopeRows { cosines, sines, frequencies: angles.frequencies(), interleaved };
        let gain = |v: Vector| self.vectors[v.0 as usize].values.at();
        let norm = args.norm.map(|n| HeadGains { q: gain(n.q), k: gain(n.k), eps: n.eps });
        let call = calls::rope_append(self.floats(args.qkv), rope, norm, kv, self.step.at());
        self.add(call);
    }

    fn attention(&mut self, args: &Attention, out: Operand) {
        let Some(kv) = self.place_of(args.pool, args.kv) else { return };
        self.attend(args, kv, out);
    }

    fn gather(&mut self, x: Act, out: Act) {
        assert!(x.width() == out.width(), "{x:?} and {out:?} differ in width");
        let (from, to, rows) = (self.floats(x), self.floats(out), self.rows_of(out));
        self.add(calls::gather_rows(from, self.step.samples(), to, rows));
    }

    fn host(&mut self, x: Act) -> Result<HostRows<'_>, DeviceError> {
        if let Err(error) = self.show(x) {
            return Err(self.failure.get_or_insert(error).clone());
        }
        let memory = &mut self.acts[x.id as usize];
        let count = self.step.count(memory.rows) * memory.stride;
        let values = memory.shown.as_mut().map_or(&mut [][..], |shown| &mut shown.values()[..count]);
        Ok(HostRows { values, stride: memory.stride, from: x.from as usize, width: x.width() })
    }

    fn read_block(&self, pool: Pool, block: u32, out: &mut [u8]) {
        self.read_unit(&self.pools[pool.0 as usize], block, out);
    }

    fn write_block(&mut self, pool: Pool, block: u32, bytes: &[u8]) {
        let at = self.pools[pool.0 as usize].at(block);
        let written = self.stream.write(bytes, at);
        self.keep(written);
    }

    fn read_state(&self, state: State, slot: u32, out: &mut [u8]) {
        self.read_unit(&self.states[state.0 as usize], slot, out);
    }

    fn write_state(&mut self, state: State, slot: u32, bytes: &[u8]) {
        let at = self.states[state.0 as usize].at(slot);
        let written = self.stream.write(bytes, at);
        self.keep(written);
    }
}
