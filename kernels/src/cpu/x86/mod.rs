//! Integer kernels in x86-64 intrinsics. They compute what the portable ones in `linear/` say, bit for bit.

pub(crate) mod avx2;
mod avx2_int8;
mod avx2_narrow;
mod avx2_quantize;
pub(crate) mod avx512;
mod avx512_int8;
mod avx512_quantize;

pub(crate) use avx2_int8::int8 as avx2_int8;
pub(crate) use avx2_narrow::narrow as avx2_narrow;
pub(crate) use avx2_quantize::fill as avx2_fill;
#[cfg(test)]
pub(crate) use avx2_quantize::quantize as avx2_quantize;
pub(crate) use avx512_int8::int8 as avx512_int8;
pub(crate) use avx512_quantize::fill as avx512_fill;
#[cfg(test)]
pub(crate) use avx512_quantize::quantize as avx512_quantize;

/// Bytes between what is multiplied and what is asked for meanwhile. The processor fetches ahead by itself, but begins anew in each
/// page of 4 KiB, and few tokens leave no time to wait for that.
const AHEAD: usize = 4096;

/// Twice the E2M1 numbers plus 12, as a shuffle table.
const BIASED: [i8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];
/// Powers of two that fit in a byte, as a shuffle table.
const SHIFTS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0];
