//! Compressed sparse attention on the CPU: rows of a pool are found through the sequence's block table.

mod attend;
mod compress;
mod rows;
mod select;

use self::attend::attend;
use self::compress::compress;
use self::rows::{append_rows, rotate_tails};
use self::select::select;
use super::Cpu;
use super::kv::by_store;
use crate::sparse::{AppendRows, Compress, RotateTails, Select, SparseAttention, SparseOps};

impl SparseOps for Cpu {
    fn rotate_tails(&mut self, args: &RotateTails) {
        rotate_tails(self, args);
    }

    fn append_rows(&mut self, args: &AppendRows) {
        by_store!(args.store, append_rows(self, args));
    }

    fn compress(&mut self, args: &Compress) {
        by_store!(args.store, compress(self, args));
    }

    fn select(&mut self, args: &Select) {
        by_store!(args.store, select(self, args));
    }

    fn sparse_attention(&mut self, args: &SparseAttention) {
        by_store!(args.store, attend(self, args));
    }
}
