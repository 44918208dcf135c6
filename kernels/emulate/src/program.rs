//! Buffers and the launches that work on them, as plain data.

use sluicegate_kernels::cuda::call::{Address, Call};

/// Bits of an address that count bytes within a buffer; the buffer's number plus one is above.
const OFFSET_BITS: u32 = 40;

/// Buffers and launches. Addresses are made up: whoever runs the program puts in its own.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Contents before the run.
    pub buffers: Vec<Vec<u8>>,
    /// Launches in order.
    pub calls: Vec<Call>,
}

impl Program {
    /// Adds a buffer.
    pub fn bytes(&mut self, bytes: Vec<u8>) -> Address {
        self.buffers.push(bytes);
        Address((self.buffers.len() as u64) << OFFSET_BITS)
    }

    /// Adds a buffer of numbers.
    pub fn put<T: Number>(&mut self, values: &[T]) -> Address {
        self.bytes(values.iter().flat_map(|v| v.bytes()).collect())
    }

    /// Adds a buffer of `count` numbers that nobody has written: all ones, which is NaN.
    pub fn room<T: Number>(&mut self, count: usize) -> Address {
        self.bytes(vec![0xff; count * size_of::<T>()])
    }

    /// Adds a launch.
    pub fn call(&mut self, call: Call) {
        self.calls.push(call);
    }

    /// The buffer that an address is in, and the offset.
    #[must_use]
    pub fn place(at: Address) -> (usize, usize) {
        ((at.0 >> OFFSET_BITS) as usize - 1, (at.0 & ((1 << OFFSET_BITS) - 1)) as usize)
    }

    /// Numbers of the buffer at `at`, from there to its end.
    #[must_use]
    pub fn get<T: Number>(&self, at: Address) -> Vec<T> {
        let (buffer, offset) = Self::place(at);
        self.buffers[buffer][offset..].chunks_exact(size_of::<T>()).map(T::from_bytes).collect()
    }
}

/// A number that a buffer holds.
pub trait Number: Copy {
    /// Little-endian bytes.
    fn bytes(self) -> Vec<u8>;
    /// From as many bytes as it has.
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl Number for $type {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                let mut whole = [0; size_of::<Self>()];
                whole.copy_from_slice(bytes);
                Self::from_le_bytes(whole)
            }
        }
    )* };
}
numbers!(u8, u16, u32, u64, f32);
