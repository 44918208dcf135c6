//! The input of linears: f32 rows, int8 cells, or both, by who reads it.

use super::cells::{self, CELL, Cell, CellRow, Order, cells_of};
use super::isa::Isa;
use super::linear::run::Input;
use super::shared::Split;
use crate::ops::Rows;

/// Memory of an operand.
#[derive(Debug)]
pub(crate) struct OperandMemory {
    pub(crate) rows: Rows,
    pub(crate) cols: usize,
    floats: Vec<f32>,
    cells: Vec<Cell>,
}

impl OperandMemory {
    /// Room for `most` rows in the forms that are read.
    pub(crate) fn new(rows: Rows, most: usize, cols: usize, read_floats: bool, read_cells: bool) -> Self {
        let floats = if read_floats { vec![0.0; most * cols] } else { Vec::new() };
        let cells = if read_cells { vec![Cell::default(); most * cells_of(cols)] } else { Vec::new() };
        Self { rows, cols, floats, cells }
    }

    /// Leaves an empty one in its place.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.rows, 0, 0, false, false))
    }

    /// Becomes some of the `count` rows of `from`, in its forms.
    pub(crate) fn gather(&mut self, from: &Self, count: usize, rows: impl ExactSizeIterator<Item = usize>) {
        let (cols, each, n) = (self.cols, cells_of(self.cols), rows.len());
        for (to, row) in rows.enumerate() {
            if !self.floats.is_empty() {
                self.floats[to * cols..][..cols].copy_from_slice(&from.floats[row * cols..][..cols]);
            }
            if !self.cells.is_empty() {
                for cell in 0..each {
                    let at = cells::cell_index(count, each, row, cell);
                    self.cells[cells::cell_index(n, each, to, cell)] = from.cells[at];
                }
            }
        }
    }

    pub(crate) fn input(&self, rows: usize) -> Input<'_> {
        Input { rows, floats: &self.floats, cells: &self.cells }
    }

    /// For writing `rows` rows from several threads.
    pub(crate) fn sink(&mut self, isa: Isa, rows: usize) -> Sink<'_> {
        let Self { cols, floats, cells, .. } = self;
        let floats = (!floats.is_empty()).then(|| Split::new(floats));
        let cells = (!cells.is_empty()).then(|| Split::new(cells));
        Sink { isa, rows, cols: *cols, floats, cells }
    }
}

/// An operand that is being written.
pub(crate) struct Sink<'a> {
    isa: Isa,
    rows: usize,
    cols: usize,
    floats: Option<Split<'a, f32>>,
    cells: Option<Split<'a, Cell>>,
}

impl Sink<'_> {
    /// Stores columns of a row in every form. Where cells are read they are whole cells, or the rest of the row.
    ///
    /// # Safety
    /// No other thread may write these columns of this row.
    #[inline]
    pub(crate) unsafe fn put(&self, row: usize, from: usize, values: &[f32]) {
        if let Some(floats) = &self.floats {
            // SAFETY: the caller's columns alone.
            unsafe { floats.part(row * self.cols + from, values.len()) }.copy_from_slice(values);
        }
        if let Some(cells) = &self.cells {
            let (rows, count, order) = (self.rows, cells_of(self.cols), Order::of(self.isa));
            assert!(
                from.is_multiple_of(CELL) && (values.len().is_multiple_of(CELL) || from + values.len() == self.cols)
            );
            // SAFETY: the caller's columns alone.
            unsafe { cells::fill(self.isa, values, from / CELL, CellRow { cells, order, rows, count, row }) };
        }
    }
}
