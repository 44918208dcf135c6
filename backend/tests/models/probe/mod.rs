//! A device that looks at what passes through it, and can be told to get one thing wrong.

mod delegate;
mod mistake;

use std::path::Path;

use sluicegate_backend::models::{CacheDtypes, Model, ModelOptions};
use sluicegate_backend::weights::Checkpoint;
use sluicegate_kernels::batch::{Batch, Extent, Limits, Pass};
use sluicegate_kernels::cpu::{Arithmetic, Cpu, CpuOptions};
use sluicegate_kernels::ops::{Act, Build, Linear, Operand, Ops, Rope, Rows, Vector};
use sluicegate_kernels::sparse::Compress;
use sluicegate_kernels::tensor::{Matrix, Values};

pub(crate) use mistake::{MISTAKES, Mistake};

/// Blocks of the sequence.
const TABLE: [u32; 8] = [3, 1, 4, 0, 5, 2, 6, 7];
/// Tokens in a block.
const BLOCK: usize = 128;
/// Width of the residual stream of every golden model.
const HIDDEN: usize = 128;

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
    /// The unit matrix of the hidden width, which shows what an operand holds, and where it goes for rows of each kind.
    unit: Option<(Linear, [Act; 2])>,
    /// The block table of the one sequence.
    table: Vec<u32>,
    /// Rows of the step.
    tokens: usize,
    /// Two for each layer.
    sublayers: usize,
    /// Inputs of the norms over the hidden width, and what came out.
    pub(crate) norms: Vec<(Seen, Seen)>,
    /// What was added to the residual stream, or went into DeepSeek-V4's streams.
    pub(crate) outputs: Vec<Seen>,
    /// Finished rows of each compressor, in the order of their first step.
    pub(crate) compressed: Vec<Seen>,
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
    /// What an operand of the hidden width holds.
    fn look_into(&mut self, x: Operand, rows: Rows) -> Seen {
        let (unit, to) = self.unit.expect("made before the step");
        let to = to[usize::from(rows == Rows::Samples)];
        self.cpu.linear(x, unit, to);
        self.look(to)
    }

    /// Rows that a compressor has finished in a step that began with the sequence.
    fn look_at_rows(&self, c: &Compress, tokens: usize) -> Seen {
        let (width, ratio) = (c.values.width() / if c.overlap { 2 } else { 1 }, c.ratio);
        let mut rows = Vec::new();
        for block in &self.table {
            let mut bytes = vec![0; BLOCK / ratio * c.store.row_bytes(width)];
            self.cpu.read_block(c.pool, *block, &mut bytes);
            for row in bytes.chunks_exact(c.store.row_bytes(width)) {
                let mut numbers = vec![0.0; width];
                c.store.read(row, &mut numbers);
                rows.push(numbers);
            }
        }
        rows.truncate(tokens / ratio);
        rows
    }

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
        unit: None,
        table: TABLE.to_vec(),
        tokens: 0,
        sublayers: 0,
        norms: Vec::new(),
        outputs: Vec::new(),
        compressed: Vec::new(),
        streams: Vec::new(),
        inputs: Vec::new(),
        routes: Vec::new(),
        selections: Vec::new(),
    };
    let checkpoint = Checkpoint::open(dir).expect("a golden model");
    let options =
        ModelOptions { dtypes: CacheDtypes::F32, simulate: false, draft_tokens: 0, mtp: false, block_tokens: 128 };
    probe.sublayers = 2 * checkpoint.config().num_hidden_layers;
    let (model, _) = Model::build(&checkpoint, options, &mut probe).expect("a golden model builds");
    probe.prepare();
    let unit: Vec<u8> =
        (0..HIDDEN * HIDDEN).flat_map(|i| f32::from(u8::from(i / HIDDEN == i % HIDDEN)).to_le_bytes()).collect();
    let unit =
        probe.cpu.stack(&[&Matrix { rows: HIDDEN, cols: HIDDEN, values: Values::F32(unit.into()) }]).expect("a unit");
    let rooms = [Rows::Batch, Rows::Samples].map(|r| probe.cpu.act(r, HIDDEN));
    probe.unit = Some((unit, rooms));
    let n = tokens.len() as u32;
    let samples: Vec<u32> = (0..n).collect();
    let extents = [Extent { row: 0, rows: n, start: 0, table: 0, table_len: 8, slot: 0 }];
    let batch = Batch { tokens, extents: &extents, block_tables: &TABLE, samples: &samples, pass: Pass::Model };
    probe.begin(&batch).expect("the CPU does not fail");
    model.forward(&mut probe, &mut |_, _| {});
    let logits = probe.look(model.logits());
    (probe, logits)
}
