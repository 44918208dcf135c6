//! A GPU as a device for models: weights, activations and KV pools in its memory, steps as CUDA graphs.
//!
//! One stream, one thread. A step uploads its metadata to fixed places and launches the recording of its bucket; the first step of a
//! bucket collects its launches and records them. Nothing is allocated in between. Errors are sticky and come out of `host`.

mod attend;
mod bench;
mod build;
mod draw;
mod driver;
mod hyper;
mod images;
mod kernels;
mod knobs;
mod memory;
mod moe;
mod peer;
mod run;
mod sparse;
mod step;
mod stream;
mod weights;

pub use bench::Bench;
pub use driver::{Gpu, cuda_version, gpus};
pub use images::embedded;
pub use knobs::Knobs;

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::CudaContext;

use crate::batch::Limits;
use crate::cuda::call::{Address, Call, Floats, Inputs};
use crate::cuda::calls::Fp4At;
use crate::ops::{Act, DeviceError, Operand, Rows};
use attend::{PARTIAL_BYTES, Tiles};
use draw::Drawing;
use kernels::Kernels;
use memory::{Buffer, Pinned};
use moe::{ExpertMemory, ExpertScratch, PickMemory};
use peer::Exported;
use sparse::{Extents, Groups};
use step::{Angles, Bucket, Step};
use stream::{Recording, Stream};
use weights::{LinearMemory, TableMemory, place};

/// An activation buffer, `stride` columns a row.
#[derive(Debug)]
struct ActMemory {
    rows: Rows,
    stride: usize,
    values: Buffer,
    /// Where the host reads it, made when it first does.
    shown: Option<Pinned<f32>>,
}

/// The input of linears, in the forms that its readers take.
#[derive(Debug)]
struct OperandMemory {
    rows: Rows,
    cols: usize,
    half_stride: usize,
    halves: Option<Buffer>,
    floats: Option<Buffer>,
    fp4: Option<Fp4Memory>,
}

/// Rows of NVFP4, made from bf16 rows in front of products that read them.
#[derive(Debug)]
struct Fp4Memory {
    at: Fp4At,
    _memory: [Buffer; 3],
}

/// A pool, or the states of all slots: so many units of so many bytes.
#[derive(Debug)]
struct UnitMemory {
    unit: usize,
    memory: Arc<Buffer>,
}

impl UnitMemory {
    fn at(&self, index: u32) -> Address {
        self.memory.at().plus(index as usize * self.unit)
    }
}

/// A vector's memory and length.
#[derive(Debug)]
struct VectorMemory {
    len: usize,
    values: Buffer,
}

/// A CUDA device. Fields that use the context go before it, so that they are dropped first.
#[derive(Debug)]
pub struct Cuda {
    recordings: HashMap<Bucket, Recording>,
    /// Launches of the present step, if it has no recording yet.
    calls: Vec<Call>,
    is_recording: bool,
    /// The first thing that went wrong.
    failure: Option<DeviceError>,
    limits: Limits,
    knobs: Knobs,
    fp4_activations: bool,
    step: Step,
    vectors: Vec<VectorMemory>,
    tables: Vec<TableMemory>,
    linears: Vec<LinearMemory>,
    operands: Vec<OperandMemory>,
    acts: Vec<ActMemory>,
    angles: Vec<Angles>,
    pools: Vec<UnitMemory>,
    states: Vec<UnitMemory>,
    /// For sampling here, made when it is first asked for.
    drawing: Option<Drawing>,
    /// What others may be reading.
    exports: Vec<Arc<Exported>>,
    /// Gate and up of a gated linear whose halves are not interleaved.
    gates: Option<ActMemory>,
    /// Attention's work, by tokens of a tile.
    tiles: Vec<Tiles>,
    /// Attention's partial results.
    partials: Buffer,
    picks: Vec<PickMemory>,
    token_experts: Vec<Buffer>,
    experts: Vec<ExpertMemory>,
    expert_scratch: Vec<ExpertScratch>,
    /// For compressed sparse attention: the step's sequences and the groups that they complete.
    extents: Option<Extents>,
    groups: Vec<Groups>,
    /// The last one is in use; older ones are those of older recordings.
    scratch: Vec<Buffer>,
    kernels: Kernels,
    stream: Stream,
    context: Arc<CudaContext>,
}

impl Cuda {
    /// Opens `cuda:ordinal` with compiled kernels: [`embedded`], or others for tests.
    ///
    /// # Errors
    /// [`DeviceError`] where there is no driver, no such GPU, no kernels, or none for this GPU.
    pub fn new(ordinal: usize, kernels: &[&[u8]], limits: Limits) -> Result<Self, DeviceError> {
        if limits.block_tokens == 0 || !limits.block_tokens.is_multiple_of(16) {
            let text = format!("KV blocks of {} tokens; a multiple of 16 is needed", limits.block_tokens);
            return Err(DeviceError(text));
        }
        let context = driver::open(ordinal)?;
        if kernels.is_empty() {
            return Err(DeviceError(
                "this binary was built without CUDA kernels; run `cargo xtask kernels` and build again".into(),
            ));
        }
        let stream = Stream::new(&context)?;
        Ok(Self {
            recordings: HashMap::new(),
            calls: Vec::new(),
            is_recording: false,
            failure: None,
            limits,
            knobs: Knobs::default(),
            fp4_activations: false,
            step: Step::new(&context, limits)?,
            vectors: Vec::new(),
            tables: Vec::new(),
            linears: Vec::new(),
            operands: Vec::new(),
            acts: Vec::new(),
            angles: Vec::new(),
            pools: Vec::new(),
            states: Vec::new(),
            drawing: None,
            exports: Vec::new(),
            gates: None,
            tiles: Vec::new(),
            partials: Buffer::zeroed(&context, PARTIAL_BYTES)?,
            picks: Vec::new(),
            token_experts: Vec::new(),
            experts: Vec::new(),
            expert_scratch: Vec::new(),
            extents: None,
            groups: Vec::new(),
            scratch: Vec::new(),
            kernels: Kernels::load(&context, kernels)?,
            stream,
            context,
        })
    }

    /// Makes other choices of where work runs, from the next step on. Recordings that were made under others are kept for their
    /// return.
    pub fn tune(&mut self, knobs: Knobs) {
        self.knobs = knobs;
        self.step.tune(knobs);
    }

    /// Multiplies NVFP4 weights with activations quantized to NVFP4 (W4A4) instead of bf16. Before the model is built; not its head, and
    /// not experts.
    ///
    /// # Errors
    /// [`DeviceError`] if this GPU's tensor cores have no such product that there is a kernel for.
    pub fn quantize_activations(&mut self) -> Result<(), DeviceError> {
        let (major, minor) = self.context.compute_capability().map_err(driver::failed("asking for the capability"))?;
        if major != 12 {
            return Err(DeviceError(format!(
                "FP4 activations need a GPU of compute capability 12.x, this one has {major}.{minor}; use nvfp4_gemm = \"w4a16\""
            )));
        }
        self.fp4_activations = true;
        Ok(())
    }

    /// What has gone wrong while the model was built, if anything has.
    ///
    /// # Errors
    /// The first failure: no memory, or an operation that this device does not have.
    pub fn check(&self) -> Result<(), DeviceError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// How many recordings have been made: for tests and metrics.
    #[must_use]
    pub fn recordings(&self) -> usize {
        self.recordings.len()
    }

    /// Keeps the first failure.
    fn keep<T>(&mut self, result: Result<T, DeviceError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.failure.get_or_insert(error);
                None
            }
        }
    }

    /// Adds a launch to the step.
    fn add(&mut self, call: Call) {
        self.calls.push(call);
    }

    fn floats(&self, act: Act) -> Floats {
        let memory = &self.acts[act.id as usize];
        let at = memory.values.at().plus(act.from as usize * 4);
        Floats { at, stride: memory.stride as u32, width: act.width }
    }

    fn inputs(&self, operand: Operand) -> Inputs {
        let memory = &self.operands[operand.0 as usize];
        Inputs {
            halves: place(memory.halves.as_ref()),
            half_stride: memory.half_stride as u32,
            floats: place(memory.floats.as_ref()),
            float_stride: memory.cols as u32,
        }
    }
}
