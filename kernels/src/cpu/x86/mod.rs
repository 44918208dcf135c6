//! Integer kernels in x86-64 intrinsics. They compute what the portable ones in `linear/` say, bit for bit.

pub(crate) mod avx2;
pub(crate) mod avx512;

/// Twice the E2M1 numbers plus 12, as a shuffle table.
const BIASED: [i8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];
/// How far ahead of the present block weights are fetched, in bytes.
const AHEAD: usize = 2048;
