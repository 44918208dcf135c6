//! Compressed sparse attention on the CPU: rows of a pool are found through the sequence's block table.

mod attend;
mod compress;
mod rows;
mod select;

use self::attend::attend;
use self::compress::compress;
use self::rows::{finish_rows, keep_rows, preceding_rows, rotate_tails};
use self::select::select;
use super::Cpu;
use crate::ops::Act;
use crate::sparse::{Compress, FinishRows, RotateTails, Select, SparseAttention, SparseOps, WindowPool};

impl SparseOps for Cpu {
    fn rotate_tails(&mut self, args: &RotateTails) {
        rotate_tails(self, args);
    }

    fn finish_rows(&mut self, args: &FinishRows) {
        finish_rows(self, args);
    }

    fn keep_rows(&mut self, rows: Act, to: &WindowPool) {
        keep_rows(self, rows, to);
    }

    fn preceding_rows(&mut self, rows: Act, kept: &WindowPool, out: Act) {
        preceding_rows(self, rows, kept, out);
    }

    fn compress(&mut self, args: &Compress) {
        compress(self, args);
    }

    fn select(&mut self, args: &Select) {
        select(self, args);
    }

    fn sparse_attention(&mut self, args: &SparseAttention) {
        attend(self, args);
    }
}
