//! Building on the CPU: repacks weights, allocates buffers.

use super::kv::PoolMemory;
use super::linear::{Packer, Part, Stack, Tiles};
use super::operand::OperandMemory;
use super::rope::RopeTable;
use super::{ActMemory, Cpu};
use crate::ops::{Act, Build, Linear, Operand, Pool, Rope, Rows, State, Table, Vector};
use crate::tensor::{BuildError, Matrix};

fn push<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    list.len() as u32 - 1
}

impl Cpu {
    fn most(&self, rows: Rows) -> usize {
        match rows {
            Rows::Batch => self.limits.rows,
            Rows::Samples => self.limits.samples,
        }
    }
}

impl Build for Cpu {
    fn vector(&mut self, values: &[f32]) -> Vector {
        Vector(push(&mut self.vectors, values.into()))
    }

    fn table(&mut self, matrix: &Matrix) -> Result<Table, BuildError> {
        matrix.check()?;
        Ok(Table(push(&mut self.tables, matrix.clone())))
    }

    fn stack(&mut self, parts: &[&Matrix]) -> Result<Linear, BuildError> {
        let (fp8, fp4) = (self.round_activations, self.fp4_activations);
        let mut packer = Packer { threads: &mut self.threads, arena: &mut self.weights, isa: self.isa };
        let mut pack = |m: &&Matrix| Part::pack(&mut packer, m, self.arithmetic).map(|p| p.rounding(m, fp8, fp4));
        let parts = parts.iter().map(&mut pack).collect::<Result<_, _>>()?;
        Ok(Linear(push(&mut self.linears, Stack::new(parts)?)))
    }

    fn gated(&mut self, gate: &Matrix, up: &Matrix) -> Result<Linear, BuildError> {
        if (gate.rows, gate.cols) != (up.rows, up.cols) {
            let text = format!("gate is {} x {}, up {} x {}", gate.rows, gate.cols, up.rows, up.cols);
            return Err(BuildError::Shape(text));
        }
        self.stack(&[gate, up])
    }

    fn head(&mut self, matrix: &Matrix) -> Result<Linear, BuildError> {
        let mut packer = Packer { threads: &mut self.threads, arena: &mut self.weights, isa: self.isa };
        let part = Part::pack_head(&mut packer, matrix, self.arithmetic)?;
        self.quantized_head |= matches!(part.tiles, Tiles::Int8(_));
        Ok(Linear(push(&mut self.linears, Stack::new(vec![part])?)))
    }

    fn rope(&mut self, frequencies: &[f64], factor: f64) -> Rope {
        Rope(push(&mut self.ropes, RopeTable::new(frequencies, factor, self.limits.rows)))
    }

    fn act(&mut self, rows: Rows, width: usize) -> Act {
        // Rows that are a multiple of a page apart would share a few sets of the caches.
        let stride = if width.is_multiple_of(1024) { width + 16 } else { width };
        let values = vec![0.0; self.most(rows) * stride];
        let id = push(&mut self.acts, ActMemory { rows, stride, values });
        Act { id, from: 0, width: width as u32 }
    }

    fn operand(&mut self, rows: Rows, readers: &[Linear]) -> Operand {
        let linears = readers.iter().map(|l| &self.linears[l.0 as usize]);
        let cols = linears.clone().next().map_or(0, |l| l.cols);
        assert!(linears.clone().all(|l| l.cols == cols), "the readers of an operand have different widths");
        let parts = linears.flat_map(|l| &l.parts);
        let cells = parts.clone().any(Part::reads_cells);
        let floats = parts.clone().any(|p| !p.reads_cells());
        let memory = OperandMemory::new(rows, self.most(rows), cols, floats, cells);
        for line in &mut self.lines {
            // Two rows' heads and what they find, if all heads share keys.
            line.resize(line.len().max(6 * cols), 0.0);
        }
        Operand(push(&mut self.operands, memory))
    }

    fn pool(&mut self, row_bytes: usize, tokens_per_row: usize) -> Result<Pool, BuildError> {
        if tokens_per_row == 0 || !self.limits.block_tokens.is_multiple_of(tokens_per_row) {
            let text = format!("rows of {tokens_per_row} tokens in blocks of {}", self.limits.block_tokens);
            return Err(BuildError::Shape(text));
        }
        let block_bytes = self.limits.block_tokens / tokens_per_row * row_bytes;
        Ok(Pool(push(&mut self.pools, PoolMemory::new(block_bytes, self.limits.blocks))))
    }

    fn state(&mut self, bytes: usize) -> Result<State, BuildError> {
        Ok(State(push(&mut self.states, PoolMemory::new(bytes, self.limits.slots))))
    }
}
