//! Building on the GPU: uploads weights, allocates buffers. What can't say that it failed keeps its failure for [`Cuda::check`].

use std::sync::Arc;

use super::memory::Buffer;
use super::step::Angles;
use super::{ActMemory, Cuda, Fp4Memory, OperandMemory, UnitMemory, VectorMemory, peer, weights};
use crate::cuda::calls::Fp4At;
use crate::cuda::pack::{FP4_STEP, STEP};
use crate::ops::{Act, Build, DeviceError, Linear, Operand, Pool, Rope, Rows, State, Table, Vector};
use crate::tensor::{BuildError, Matrix};

fn push<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    list.len() as u32 - 1
}

/// A handle that nothing is behind; the device has failed.
const NOTHING: u32 = u32::MAX;

impl Cuda {
    pub(super) fn most(&self, rows: Rows) -> usize {
        match rows {
            Rows::Batch => self.limits.rows,
            Rows::Samples => self.limits.samples,
        }
    }

    fn zeroed(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        Buffer::zeroed(&self.context, bytes)
    }

    fn units(&self, unit: usize, count: usize) -> Result<UnitMemory, BuildError> {
        let memory = self.zeroed((unit * count).next_multiple_of(peer::SHARED)).map_err(|e| BuildError::Memory(e.0))?;
        Ok(UnitMemory { unit, memory: Arc::new(memory) })
    }

    fn new_act(&self, rows: Rows, width: usize) -> Result<ActMemory, DeviceError> {
        let values = self.zeroed(self.most(rows) * width * 4)?;
        Ok(ActMemory { rows, stride: width, values, shown: None })
    }

    /// Room for rows of NVFP4, whose padding is zero and stays so.
    fn new_fp4(&self, most: usize, cols: usize) -> Result<Fp4Memory, DeviceError> {
        let padded = cols.next_multiple_of(FP4_STEP);
        let sizes = [most * padded / 2, most * padded / 16, most * 4];
        let memory = [self.zeroed(sizes[0])?, self.zeroed(sizes[1])?, self.zeroed(sizes[2])?];
        let [codes, scales, row_scales] = memory.each_ref().map(Buffer::at);
        Ok(Fp4Memory { at: Fp4At { codes, scales, row_scales, padded: padded as u32 }, _memory: memory })
    }

    /// Rows in the forms that linears of these kinds read. Padding of bf16 rows is zero and stays so.
    fn new_operand(
        &self,
        rows: Rows,
        cols: usize,
        (halves, floats, fp4): (bool, bool, bool),
    ) -> Result<OperandMemory, DeviceError> {
        let half_stride = cols.next_multiple_of(STEP);
        let most = self.most(rows);
        Ok(OperandMemory {
            rows,
            cols,
            half_stride,
            halves: halves.then(|| self.zeroed(most * half_stride * 2)).transpose()?,
            floats: floats.then(|| self.zeroed(most * cols * 4)).transpose()?,
            fp4: fp4.then(|| self.new_fp4(most, cols)).transpose()?,
        })
    }
}

impl Build for Cuda {
    fn vector(&mut self, values: &[f32]) -> Vector {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let uploaded = Buffer::of(&self.context, &bytes);
        let memory = self.keep(uploaded).map(|buffer| VectorMemory { len: values.len(), values: buffer });
        Vector(memory.map_or(NOTHING, |m| push(&mut self.vectors, m)))
    }

    fn table(&mut self, matrix: &Matrix) -> Result<Table, BuildError> {
        let table = weights::table(&self.context, matrix)?;
        Ok(Table(push(&mut self.tables, table)))
    }

    fn stack(&mut self, parts: &[&Matrix]) -> Result<Linear, BuildError> {
        let linear = weights::stack(&self.context, parts, self.fp4_activations)?;
        Ok(Linear(push(&mut self.linears, linear)))
    }

    fn gated(&mut self, gate: &Matrix, up: &Matrix) -> Result<Linear, BuildError> {
        let linear = weights::gated(&self.context, gate, up, self.fp4_activations)?;
        let width = linear.rows();
        if linear.parts.len() > 1 && self.gates.as_ref().is_none_or(|g| g.stride < width) {
            self.gates = Some(self.new_act(Rows::Batch, width).map_err(|e| BuildError::Memory(e.0))?);
        }
        Ok(Linear(push(&mut self.linears, linear)))
    }

    /// In the checkpoint's format, and with bf16 activations.
    fn head(&mut self, matrix: &Matrix) -> Result<Linear, BuildError> {
        let linear = weights::stack(&self.context, &[matrix], false)?;
        Ok(Linear(push(&mut self.linears, linear)))
    }

    fn rope(&mut self, frequencies: &[f64], factor: f64) -> Rope {
        let angles = Angles::new(&self.context, frequencies, factor, self.limits.rows);
        let angles = self.keep(angles);
        Rope(angles.map_or(NOTHING, |a| push(&mut self.angles, a)))
    }

    fn act(&mut self, rows: Rows, width: usize) -> Act {
        let memory = self.new_act(rows, width);
        let id = self.keep(memory).map_or(NOTHING, |m| push(&mut self.acts, m));
        Act { id, from: 0, width: width as u32 }
    }

    fn operand(&mut self, rows: Rows, readers: &[Linear]) -> Operand {
        let linears = || readers.iter().map(|l| &self.linears[l.0 as usize]);
        let cols = linears().next().map_or(0, |l| l.cols);
        assert!(linears().all(|l| l.cols == cols), "the readers of an operand have different widths");
        let halves = linears().any(weights::LinearMemory::reads_halves);
        let floats = linears().any(weights::LinearMemory::reads_floats);
        let fp4 = linears().any(weights::LinearMemory::reads_fp4);
        let memory = self.new_operand(rows, cols, (halves, floats, fp4));
        Operand(self.keep(memory).map_or(NOTHING, |m| push(&mut self.operands, m)))
    }

    /// `cuda/kv.cuh`: a head's tokens side by side.
    fn block_layout(&self) -> Option<&'static str> {
        Some("as CUDA kernels lay blocks out")
    }

    fn pool(&mut self, row_bytes: usize, tokens_per_row: usize) -> Result<Pool, BuildError> {
        if tokens_per_row == 0 || !self.limits.block_tokens.is_multiple_of(tokens_per_row) {
            let text = format!("rows of {tokens_per_row} tokens in blocks of {}", self.limits.block_tokens);
            return Err(BuildError::Shape(text));
        }
        let units = self.units(self.limits.block_tokens / tokens_per_row * row_bytes, self.limits.blocks)?;
        Ok(Pool(push(&mut self.pools, units)))
    }

    fn state(&mut self, bytes: usize) -> Result<State, BuildError> {
        let units = self.units(bytes, self.limits.slots)?;
        Ok(State(push(&mut self.states, units)))
    }
}
