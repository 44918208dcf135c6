//! A device that looks at what passes through it, and can be told to get one thing wrong.

mod delegate;
mod mistake;

use std::path::Path;

use sluicegate_backend::models::{Model, ModelOptions};
use sluicegate_backend::weights::Checkpoint;
use sluicegate_kernels::batch::{Batch, Extent, Limits};
use sluicegate_kernels::cpu::{Arithmetic, Cpu, CpuOptions};
use sluicegate_kernels::ops::{Act, KvStore, Ops, Rope, Vector};

pub(crate) use mistake::{MISTAKES, Mistake};

/// Rows of a buffer.
pub(crate) type Seen = Vec<Vec<f32>>;

/// The CPU in reference arithmetic, with notes.
#[derive(Debug)]
pub(crate) struct Probe {
    cpu: Cpu,
    mistake: Option<Mistake>,
    /// Ropes in the order in which the model made them, then one that does not rotate.
    ropes: Vec<Rope>,
    /// A vector that is never looked up in earnest: large negative numbers.
    low: Option<Vector>,
    /// Streams after each sublayer of DeepSeek-V4.
    pub(crate) streams: Vec<Seen>,
    /// Input and mixing numbers in front of each sublayer.
    pub(crate) inputs: Vec<(Seen, Seen)>,
    /// Router logits, chosen experts, and their weights.
    pub(crate) routes: Vec<(Seen, Vec<u32>, Vec<f32>)>,
    /// Chosen compressed rows.
    pub(crate) selections: Vec<Vec<u32>>,
}

impl Probe {
    fn look(&mut self, act: Act) -> Seen {
        let mut rows = self.cpu.host(act).expect("the CPU does not fail");
        (0..rows.rows()).map(|r| rows.row(r).to_vec()).collect()
    }
}

/// Runs a prompt in one step: the notes, and the logits of all rows.
pub(crate) fn run(dir: &Path, tokens: &[u32], mistake: Option<Mistake>) -> (Probe, Seen) {
    let limits = Limits { rows: 512, samples: 512, table_entries: 8, block_tokens: 128, blocks: 8, slots: 1 };
    let options = CpuOptions { arithmetic: Arithmetic::Reference, ..CpuOptions::default() };
    let mut probe = Probe {
        cpu: Cpu::new(options, limits).expect("a CPU"),
        mistake,
        ropes: Vec::new(),
        low: None,
        streams: Vec::new(),
        inputs: Vec::new(),
        routes: Vec::new(),
        selections: Vec::new(),
    };
    let checkpoint = Checkpoint::open(dir).expect("a golden model");
    let options = ModelOptions { kv_store: KvStore::F32, block_tokens: 128 };
    let (model, _) = Model::build(&checkpoint, options, &mut probe).expect("a golden model builds");
    probe.prepare();
    let n = tokens.len() as u32;
    let samples: Vec<u32> = (0..n).collect();
    let extents = [Extent { row: 0, rows: n, start: 0, table: 0, table_len: 8, slot: 0 }];
    let batch = Batch { tokens, extents: &extents, block_tables: &[3, 1, 4, 0, 5, 2, 6, 7], samples: &samples };
    probe.begin(&batch).expect("the CPU does not fail");
    model.forward(&mut probe);
    let logits = probe.look(model.logits());
    (probe, logits)
}
