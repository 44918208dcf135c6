//! Activations to int8 in AVX2, as `cells.rs` says.

use std::arch::x86_64::*;

use crate::cpu::cells::{CELL, Cell, CellRow, Order, SMALLEST, for_cells};

/// Quantizes consecutive cells of a row, which are the caller's alone.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn fill(x: &[f32], first: usize, to: CellRow<'_>) {
    for_cells(x, first, to, |numbers| quantize(numbers));
}

/// A cell in the order of [`crate::cpu::cells::Order::Halves`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn quantize(x: &[f32; CELL]) -> Cell {
    // SAFETY: eight floats at 0, 8, 16 and 24 of 32.
    let v: [__m256; 4] = std::array::from_fn(|i| unsafe { _mm256_loadu_ps(x.as_ptr().add(8 * i)) });
    let amax = largest(&v);
    let (scale, inverse) = if amax > SMALLEST { (amax / 127.0, 127.0 / amax) } else { (0.0, 0.0) };
    let by = _mm256_set1_ps(inverse);
    // Rounds to nearest, ties to even; magnitudes are at most 127, so that nothing saturates.
    let q = v.map(|v| _mm256_cvtps_epi32(_mm256_mul_ps(v, by)));
    // In pairs of columns P of the first half and Q of the second: P0 P1 P4 P5 Q0 Q1 Q4 Q5 | P2 P3 P6 P7 Q2 Q3 Q6 Q7.
    let bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    let by_turns = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    let bytes = _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(by_turns));
    // P0 Q0 P1 Q1 and so on.
    with_sums(_mm256_permute4x64_epi64::<0b11_01_10_00>(bytes), scale)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn with_sums(q: __m256i, scale: f32) -> Cell {
    let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
    // 16-bit lanes are by turns of the first and of the second half.
    let sums = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
    let sums = _mm_add_epi16(sums, _mm_shuffle_epi32::<0b01_00_11_10>(sums));
    let sums = _mm_cvtsi128_si32(_mm_add_epi16(sums, _mm_shuffle_epi32::<0b10_11_00_01>(sums)));
    let sums = [sums as i16, (sums >> 16) as i16];
    let minus_128 = -128 * (i32::from(sums[0]) + i32::from(sums[1]));
    let mut cell = Cell { scale, back: Order::Halves.back(sums), minus_128, ..Cell::default() };
    // SAFETY: 32 bytes.
    unsafe { _mm256_storeu_si256(cell.q.as_mut_ptr().cast(), q) };
    cell
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn largest(v: &[__m256; 4]) -> f32 {
    let magnitude = |v| _mm256_andnot_ps(_mm256_set1_ps(-0.0), v);
    let (a, b) = (_mm256_max_ps(magnitude(v[0]), magnitude(v[1])), _mm256_max_ps(magnitude(v[2]), magnitude(v[3])));
    let m = _mm256_max_ps(a, b);
    let m = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps::<1>(m));
    let m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)))
}
