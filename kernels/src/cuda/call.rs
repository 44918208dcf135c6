//! A kernel launch as a value. Every way to run the kernels takes the same launches: a GPU, the host build of the sources, the
//! interpreter of nvcc's PTX.

/// A place in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address(pub u64);

impl Address {
    /// No place: an optional buffer that a launch does without.
    pub const NULL: Self = Self(0);

    /// `bytes` further.
    #[must_use]
    pub fn plus(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// A kernel's parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// A pointer.
    At(Address),
    /// `u32`.
    U32(u32),
    /// `float`.
    F32(f32),
}

impl From<Address> for Arg {
    fn from(at: Address) -> Self {
        Self::At(at)
    }
}

impl From<u32> for Arg {
    fn from(value: u32) -> Self {
        Self::U32(value)
    }
}

impl From<f32> for Arg {
    fn from(value: f32) -> Self {
        Self::F32(value)
    }
}

/// A launch of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its name in the module.
    pub kernel: &'static str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared: u32,
    /// Parameters in order.
    pub args: Vec<Arg>,
}

/// Lists a kernel's parameters.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { vec![$($crate::cuda::call::Arg::from($arg)),*] };
}
pub(crate) use args;

/// How many rows a launch covers: `most` shapes the grid, the number in device memory is what counts, so that a recorded launch
/// serves any smaller batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCount {
    /// A `u32` on the device.
    pub at: Address,
    /// Rows that the grid has room for.
    pub most: u32,
}

/// Columns of f32 rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floats {
    /// First column of the first row.
    pub at: Address,
    /// Numbers from one row to the next.
    pub stride: u32,
    /// Columns.
    pub width: u32,
}

/// Rows for linears to read, in one or both forms; a form that nobody reads is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// bf16 rows for tensor cores.
    pub halves: Address,
    /// Numbers from one bf16 row to the next: the width, up to the next multiple of 64. What is added is zero.
    pub half_stride: u32,
    /// f32 rows.
    pub floats: Address,
    /// Numbers from one f32 row to the next.
    pub float_stride: u32,
}
