//! Activations to int8 in AVX-512, as `cells.rs` says.

use std::arch::x86_64::*;

use crate::cpu::cells::{CELL, Cell, CellRow, Order, SMALLEST, for_cells};

/// Quantizes consecutive cells of a row, which are the caller's alone.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(crate) fn fill(x: &[f32], first: usize, to: CellRow<'_>) {
    for_cells(x, first, to, |numbers| quantize(numbers));
}

/// A cell in the order of [`Order::Quads`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(crate) fn quantize(x: &[f32; CELL]) -> Cell {
    // SAFETY: sixteen floats at 0 and 16 of 32.
    let v = unsafe { [_mm512_loadu_ps(x.as_ptr()), _mm512_loadu_ps(x.as_ptr().add(16))] };
    let amax = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(v[0]), _mm512_abs_ps(v[1])));
    let (scale, inverse) = if amax > SMALLEST { (amax / 127.0, 127.0 / amax) } else { (0.0, 0.0) };
    let by = _mm512_set1_ps(inverse);
    // Rounds to nearest, ties to even; magnitudes are at most 127, so that nothing saturates.
    let whole = [_mm512_cvtps_epi32(_mm512_mul_ps(v[0], by)), _mm512_cvtps_epi32(_mm512_mul_ps(v[1], by))];
    // Four of the first half, four of the second, and so on.
    let q = _mm512_cvtepi16_epi8(_mm512_packs_epi32(whole[0], whole[1]));
    let sums = sums_of_halves(q);
    let minus_128 = -128 * (i32::from(sums[0]) + i32::from(sums[1]));
    let mut cell = Cell { scale, back: Order::Quads.back(sums), minus_128, ..Cell::default() };
    // SAFETY: 32 bytes.
    unsafe { _mm256_storeu_si256(cell.q.as_mut_ptr().cast(), q) };
    cell
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn sums_of_halves(q: __m256i) -> [i16; 2] {
    let fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
    // 32-bit lanes are by turns of the first and of the second half.
    let sums = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256::<1>(fours));
    let sums = _mm_cvtsi128_si64(_mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums)));
    [sums as i16, (sums >> 32) as i16]
}
