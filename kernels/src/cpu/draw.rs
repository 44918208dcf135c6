//! Greedy rows: the head waits until it is known what its logits are for, and of a row that takes its largest logit none is kept.

use super::Cpu;
use super::linear::largest::Asked;
use super::linear::{Part, Tiles};
use super::operand::OperandMemory;
use super::run::project;
use crate::draw::{DrawBy, DrawOps, DrawRow, Shown};
use crate::ops::{Act, DeviceError, Linear, Operand, Rows};

/// A head that waits. Only `host` and `draw` look at its logits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(super) x: Operand,
    pub(super) w: Linear,
    pub(super) out: Act,
}

impl Cpu {
    /// Whether the product is of a head that was quantized for it, with rows to sample.
    pub(super) fn can_wait(&self, x: Operand, w: Linear) -> bool {
        let is_head = matches!(&self.linears[w.0 as usize].parts[..], [Part { tiles: Tiles::Int8(_), .. }]);
        is_head && self.operands[x.0 as usize].rows == Rows::Samples
    }

    /// Computes the logits that wait, if they are `concerned`.
    pub(super) fn settle_head(&mut self, concerned: impl Fn(&Pending) -> bool) {
        if let Some(Pending { x, w, out }) = self.pending.take_if(|pending| concerned(pending)) {
            self.project(x, w, out, false);
        }
    }

    /// Some of the rows of an operand.
    fn some_rows(&self, x: Operand, rows: &[usize]) -> OperandMemory {
        let from = &self.operands[x.0 as usize];
        let mut some = OperandMemory::new(from.rows, rows.len(), from.cols, false, true);
        some.gather(from, self.step.count(from.rows), rows.iter().copied());
        some
    }

    /// Computes and shows the logits of some rows.
    fn show(&mut self, Pending { x, w, out }: Pending, rows: &[usize], shown: Shown<'_>) {
        let some = self.some_rows(x, rows);
        let memory = &mut self.acts[out.id as usize];
        let mut looper = Self::looper(self.isa, &mut self.threads, &mut self.scratch);
        let stack = &self.linears[w.0 as usize];
        project(&mut looper, stack, some.input(rows.len()), (memory, out.from as usize), false);
        for (i, row) in rows.iter().enumerate() {
            shown(*row, &mut memory.values[i * memory.stride + out.from as usize..][..out.width()]);
        }
    }
}

impl DrawOps for Cpu {
    fn draws(&self, by: &DrawBy, biased: bool) -> bool {
        let as_they_are = by.repetition == 1.0 && by.frequency == 0.0 && by.presence == 0.0 && !biased;
        by.temperature == 0.0 && as_they_are && self.quantized_head
    }

    fn draw(
        &mut self,
        logits: Act,
        rows: &[Option<DrawRow<'_>>],
        drawn: &mut Vec<u32>,
        shown: Shown<'_>,
    ) -> Result<(), DeviceError> {
        let Some(pending) = self.pending.take_if(|pending| pending.out == logits) else {
            return Err(DeviceError("the step has not computed the logits to draw from".into()));
        };
        let (greedy, others): (Vec<_>, Vec<_>) = (0..rows.len()).partition(|&row| rows[row].is_some());
        drawn.clear();
        drawn.resize(rows.len(), u32::MAX);
        if !others.is_empty() {
            self.show(pending, &others, shown);
        }
        let asked: Vec<_> = rows.iter().flatten().map(|row| Asked { mask: row.mask }).collect();
        let some = (!others.is_empty()).then(|| self.some_rows(pending.x, &greedy));
        let operand = some.as_ref().unwrap_or(&self.operands[pending.x.0 as usize]);
        let mut looper = Self::looper(self.isa, &mut self.threads, &mut self.scratch);
        let largest = looper.largest(&self.linears[pending.w.0 as usize], operand.input(greedy.len()), &asked);
        for (row, largest) in greedy.into_iter().zip(largest) {
            drawn[row] = largest.row;
        }
        Ok(())
    }
}
