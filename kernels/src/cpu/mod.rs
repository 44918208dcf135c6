//! The CPU device. Its reference arithmetic is the specification; its fast arithmetic is exact integer products of NVFP4
//! weights and int8 activations. Every instruction set, thread count and batch gives the same bits.

#![allow(clippy::needless_range_loop, reason = "lanes are indexed, so that the order of arithmetic is plain to see")]

mod attention;
mod build;
mod cells;
mod draw;
pub(crate) mod element;
mod hyper;
mod isa;
mod kv;
mod linear;
mod math;
mod memory;
mod moe;
mod norm;
mod operand;
mod rope;
mod run;
mod shared;
mod sparse;
mod step;
mod threads;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use isa::Isa;
pub use linear::Arithmetic;
pub use threads::Threads;

use std::sync::Arc;

use crate::batch::Limits;
use crate::ops::{Act, DeviceError, Rows};
use crate::tensor::Matrix;
use kv::PoolMemory;
use linear::Stack;
use linear::run::{Loop, Scratch};
use memory::Arena;
use moe::{ExpertMemory, PickMemory};
use operand::OperandMemory;
use rope::RopeTable;
use step::StepRows;

/// How a CPU device works.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Threads, the caller included.
    pub threads: usize,
    /// Reference or fast.
    pub arithmetic: Arithmetic,
    /// Instructions to use.
    pub isa: Isa,
    /// Activations in front of FP8 and FP4 weights are rounded to E4M3, 128 to a power-of-two scale, as DeepSeek's kernels do
    /// (fast arithmetic rounds those in front of FP4 weights to int8 instead).
    pub round_activations: bool,
    /// Activations in front of NVFP4 weights are quantized to NVFP4 by [`nvfp4::round_row`](crate::nvfp4::round_row), as a GPU that
    /// multiplies FP4 with FP4 does. Reference arithmetic alone.
    pub fp4_activations: bool,
}

impl Default for CpuOptions {
    /// Fast arithmetic with the best instructions on every core that this process may use.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads,
            arithmetic: Arithmetic::Fast,
            isa: Isa::best(),
            round_activations: false,
            fp4_activations: false,
        }
    }
}

/// An activation buffer, `stride` columns a row.
#[derive(Debug)]
struct ActMemory {
    rows: Rows,
    stride: usize,
    values: Vec<f32>,
}

/// A device of this process's cores and memory.
#[derive(Debug)]
pub struct Cpu {
    isa: Isa,
    arithmetic: Arithmetic,
    round_activations: bool,
    fp4_activations: bool,
    limits: Limits,
    threads: Threads,
    scratch: Vec<Scratch>,
    /// Where linears keep their weights.
    weights: Arena,
    /// One row per thread, as wide as the widest operand.
    lines: Vec<Vec<f32>>,
    vectors: Vec<Arc<[f32]>>,
    tables: Vec<Matrix>,
    linears: Vec<Stack>,
    operands: Vec<OperandMemory>,
    acts: Vec<ActMemory>,
    picks: Vec<PickMemory>,
    experts: Vec<ExpertMemory>,
    /// Experts per token, and the table.
    token_experts: Vec<(usize, Vec<u32>)>,
    ropes: Vec<RopeTable>,
    pools: Vec<PoolMemory>,
    states: Vec<PoolMemory>,
    step: StepRows,
    /// The head of this step, until its logits or what they are for is asked.
    pending: Option<draw::Pending>,
    /// Whether a head was quantized, so that it can wait.
    quantized_head: bool,
}

impl Cpu {
    /// A device without weights.
    ///
    /// # Errors
    /// If a thread can't be started, or a block is not a multiple of 16 tokens.
    pub fn new(options: CpuOptions, limits: Limits) -> Result<Self, DeviceError> {
        if limits.block_tokens == 0 || !limits.block_tokens.is_multiple_of(attention::STEP) {
            return Err(DeviceError(format!(
                "KV blocks of {} tokens; a multiple of 16 is needed",
                limits.block_tokens
            )));
        }
        let threads = Threads::new(options.threads)
            .map_err(|e| DeviceError(format!("can't start {} threads: {e}", options.threads)))?;
        Ok(Self {
            isa: options.isa,
            arithmetic: options.arithmetic,
            round_activations: options.round_activations,
            fp4_activations: options.fp4_activations,
            limits,
            scratch: (0..threads.count()).map(|_| Scratch::default()).collect(),
            weights: Arena::default(),
            lines: vec![Vec::new(); threads.count()],
            threads,
            vectors: Vec::new(),
            tables: Vec::new(),
            linears: Vec::new(),
            operands: Vec::new(),
            acts: Vec::new(),
            picks: Vec::new(),
            experts: Vec::new(),
            token_experts: Vec::new(),
            ropes: Vec::new(),
            pools: Vec::new(),
            states: Vec::new(),
            step: StepRows::new(&limits),
            pending: None,
            quantized_head: false,
        })
    }

    /// Bytes of all linears' weights and scales as they lie in memory: what a step of a dense model reads.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// The buffer behind a view, and the range of its columns.
    fn view(acts: &[ActMemory], act: Act) -> (&ActMemory, std::ops::Range<usize>) {
        (&acts[act.id as usize], act.from as usize..(act.from + act.width) as usize)
    }

    fn looper<'a>(isa: Isa, threads: &'a mut Threads, scratch: &'a mut [Scratch]) -> Loop<'a> {
        Loop { isa, threads, scratch }
    }
}

/// Blocks of host memory need no way of their own.
impl crate::peer::PeerOps for Cpu {}
