//! The operations a model may call. This file is the specification; the CPU's reference mode follows it to the letter.
//!
//! A device owns weights, activations, KV pools and a step's metadata; models hold handles. Everything is allocated
//! while the model is built. A step is `begin`, the model's operations in their fixed order, `host` to read the logits.
//! Operations take no host data and return nothing, so a device may record the sequence as a graph and replay it.
//! A device failure is sticky and surfaces in `host`. A wrong handle or width is a bug of the model and panics.
//!
//! **Determinism.** Every output element is reduced in one fixed order, which does not depend on the number of rows, on
//! the other rows, on how a sequence was cut into steps, on which blocks hold it, or on the number of threads.

use crate::batch::Batch;
use crate::draw::DrawOps;
use crate::hyper::HyperOps;
use crate::moe::MoeOps;
use crate::peer::PeerOps;
use crate::sparse::SparseOps;
use crate::tensor::{BuildError, Matrix};

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub(crate) u32);
    )* };
}

handles! {
    /// A vector of weights: a norm's gain, a bias.
    Vector,
    /// A table whose rows are gathered by token id: an embedding.
    Table,
    /// A matrix (or several, stacked by rows) that multiplies an [`Operand`].
    Linear,
    /// The input of linears, in whatever form those linears read: f32, int8 cells, FP4 with scales.
    Operand,
    /// Rotary frequencies; the device prepares cosines and sines of the step's positions in `begin`.
    Rope,
    /// One per-layer cache addressed by block.
    Pool,
    /// One per-layer cache addressed by state slot.
    State,
}

/// Which rows a buffer has. An operation works on the rows of its output; its inputs have the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// All rows of the step.
    Batch,
    /// Only the rows to sample.
    Samples,
}

/// Columns of an activation buffer, f32 (or wider than what linears read): the residual stream, projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Act {
    pub(crate) id: u32,
    pub(crate) from: u32,
    pub(crate) width: u32,
}

impl Act {
    /// Columns `from..from + width` of this view.
    ///
    /// # Panics
    /// If they are outside.
    #[must_use]
    pub fn columns(self, from: usize, width: usize) -> Self {
        assert!(from + width <= self.width as usize, "columns {from}+{width} of {}", self.width);
        Self { id: self.id, from: self.from + from as u32, width: width as u32 }
    }

    /// Number of columns.
    #[must_use]
    pub fn width(self) -> usize {
        self.width as usize
    }
}

/// How KV rows are stored. Writing rounds to nearest, ties to even; half precision saturates at its largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvStore {
    /// Exact; the reference mode's choice.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
}

impl KvStore {
    /// Bytes of a number.
    #[must_use]
    pub fn size(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }
}

/// One layer's keys and values of a token: `heads` keys and as many values of `head_dim` numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvShape {
    /// KV heads.
    pub heads: usize,
    /// Numbers in a key, and in a value.
    pub head_dim: usize,
    /// Number format.
    pub store: KvStore,
}

impl KvShape {
    /// Bytes of one token's row.
    #[must_use]
    pub fn row_bytes(self) -> usize {
        2 * self.heads * self.head_dim * self.store.size()
    }
}

/// Which numbers of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopePairs {
    /// `(i, i + n/2)`: NeoX, Llama as Hugging Face stores it, Qwen.
    Halves,
    /// `(2i, 2i + 1)`: DeepSeek.
    Interleaved,
}

/// RMS norm of each head before rotation (Qwen3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadNorm {
    /// Gain for queries.
    pub q: Vector,
    /// Gain for keys.
    pub k: Vector,
    /// Added to the mean square.
    pub eps: f32,
}

/// Arguments of [`Ops::rope_append`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeAppend {
    /// `[q heads | k heads | v heads]`, each `head_dim` wide. Queries are rotated in place.
    pub qkv: Act,
    /// Query heads.
    pub q_heads: usize,
    /// Keys and values.
    pub kv: KvShape,
    /// Angles; rotates the first `2 * frequencies` numbers of each head.
    pub rope: Rope,
    /// Pairing.
    pub pairs: RopePairs,
    /// Norm before rotation.
    pub norm: Option<HeadNorm>,
    /// Where keys and values go.
    pub pool: Pool,
}

/// Arguments of [`Ops::attention`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Rotated queries, `q_heads * head_dim` wide.
    pub q: Act,
    /// Query heads, a multiple of `kv.heads`: query head `h` reads KV head `h / (q_heads / kv.heads)`.
    pub q_heads: usize,
    /// Shape of the pool's rows.
    pub kv: KvShape,
    /// Multiplies scores; usually `head_dim^-0.5`.
    pub scale: f32,
    /// Keys and values, which already hold this step's rows.
    pub pool: Pool,
}

/// Whether a step's operations must be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call them.
    Run,
    /// The device has launched a recording of the same sequence; don't.
    Replayed,
}

/// The device failed and is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(pub String);

/// Building: what a model asks for once. All memory is allocated here.
pub trait Build {
    /// Takes a vector.
    fn vector(&mut self, values: &[f32]) -> Vector;
    /// Takes a table; it may go on sharing the matrix' bytes.
    ///
    /// # Errors
    /// [`BuildError`] if the matrix is malformed.
    fn table(&mut self, matrix: &Matrix) -> Result<Table, BuildError>;
    /// Takes matrices of equal `cols`, stacked by rows. Each keeps its own tensor scale.
    ///
    /// # Errors
    /// [`BuildError`] if one is malformed or widths differ.
    fn stack(&mut self, parts: &[&Matrix]) -> Result<Linear, BuildError>;
    /// Takes a gate and an up matrix of equal shape, for [`Ops::linear_gated`].
    ///
    /// # Errors
    /// [`BuildError`] if one is malformed or shapes differ.
    fn gated(&mut self, gate: &Matrix, up: &Matrix) -> Result<Linear, BuildError>;
    /// Takes an output head. A device may store it in fewer bits; it says so in its documentation.
    ///
    /// # Errors
    /// [`BuildError`] if it is malformed.
    fn head(&mut self, matrix: &Matrix) -> Result<Linear, BuildError>;
    /// Takes rotary frequencies in radians per position, and a factor for cosines and sines (YaRN's; else 1).
    fn rope(&mut self, frequencies: &[f64], factor: f64) -> Rope;
    /// Allocates an activation buffer.
    fn act(&mut self, rows: Rows, width: usize) -> Act;
    /// Allocates the input of these linears, which have equal `cols`.
    fn operand(&mut self, rows: Rows, readers: &[Linear]) -> Operand;
    /// Name of the layout of this device's blocks, if it is not the CPU's. Blocks travel only between devices that lay them out alike.
    fn block_layout(&self) -> Option<&'static str> {
        None
    }
    /// Allocates a cache of `row_bytes` for each `tokens_per_row` tokens of every KV block.
    ///
    /// # Errors
    /// [`BuildError::Memory`].
    fn pool(&mut self, row_bytes: usize, tokens_per_row: usize) -> Result<Pool, BuildError>;
    /// Allocates a cache of `bytes` for every state slot, zeroed.
    ///
    /// # Errors
    /// [`BuildError::Memory`].
    fn state(&mut self, bytes: usize) -> Result<State, BuildError>;
}

/// Running: the operations of a step.
pub trait Ops: Build + MoeOps + HyperOps + SparseOps + DrawOps + PeerOps + Send {
    /// Uploads a step's metadata. The batch is within the device's limits and consistent; the executor has checked.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn begin(&mut self, batch: &Batch<'_>) -> Result<Step, DeviceError>;

    /// `out[r] = table[token[r]]`, widened to f32.
    fn embed(&mut self, table: Table, out: Act);

    /// `out[r] = x[r] * rsqrt(mean(x[r]^2) + eps) * gain`, then converted to what the operand's readers take.
    fn rms_norm(&mut self, x: Act, gain: Vector, eps: f32, out: Operand);

    /// `out[r] = x[r]`, converted to what the operand's readers take.
    fn convert(&mut self, x: Act, out: Operand);

    /// `out[r] = w . x[r]`.
    fn linear(&mut self, x: Operand, w: Linear, out: Act);

    /// `out[r] += w . x[r]`: a projection into the residual stream.
    fn linear_add(&mut self, x: Operand, w: Linear, out: Act);

    /// `out[r] = silu(gate . x[r]) * (up . x[r])` with `silu(v) = v / (1 + e^-v)`; `w` comes from [`Build::gated`].
    /// With a limit, the gate is capped at `limit` and `up` is clamped to `[-limit, limit]` beforehand.
    fn linear_gated(&mut self, x: Operand, w: Linear, limit: Option<f32>, out: Operand);

    /// Normalises (if asked) and rotates queries and keys, and stores keys and values in the row's slot of the pool.
    /// Rotation: `(a, b) -> (a cos - b sin, b cos + a sin)` at angle `position * frequency`.
    fn rope_append(&mut self, args: &RopeAppend);

    /// Causal attention of each row over the cached rows of its own sequence, positions `0..=position`:
    /// `out = sum_j softmax_j(scale * q . k_j) v_j`, heads side by side. The softmax runs over KV blocks in ascending
    /// order with a running maximum, one step a block.
    fn attention(&mut self, args: &Attention, out: Operand);

    /// Copies the rows to sample: `out` has [`Rows::Samples`], `x` has [`Rows::Batch`].
    fn gather(&mut self, x: Act, out: Act);

    /// Whether an operation is over when its call returns, so that what is cached can be read between two of them.
    fn is_eager(&self) -> bool {
        false
    }

    /// Waits for the step and shows a buffer: `rows x stride`, of which the first `width` columns of each row are its own.
    /// The caller may overwrite it.
    ///
    /// # Errors
    /// [`DeviceError`] if any operation since `begin` failed.
    fn host(&mut self, x: Act) -> Result<HostRows<'_>, DeviceError>;

    /// Copies one block of a pool out: `block_tokens / tokens_per_row * row_bytes`.
    fn read_block(&self, pool: Pool, block: u32, out: &mut [u8]);
    /// Writes one block of a pool.
    fn write_block(&mut self, pool: Pool, block: u32, bytes: &[u8]);
    /// Copies a state slot out.
    fn read_state(&self, state: State, slot: u32, out: &mut [u8]);
    /// Writes a state slot.
    fn write_state(&mut self, state: State, slot: u32, bytes: &[u8]);
}

/// Rows of a buffer in host memory.
#[derive(Debug)]
pub struct HostRows<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) stride: usize,
    pub(crate) from: usize,
    pub(crate) width: usize,
}

impl HostRows<'_> {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len() / self.stride
    }

    /// A row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.stride + self.from..][..self.width]
    }
}
