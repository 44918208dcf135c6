//! AVX2 kernels: pairs of products in 16 bits (they can't overflow), then exact sums in 32.

use std::arch::x86_64::*;

use half::f16;

use super::{AHEAD, BIASED};
use crate::cpu::cells::Cell;
use crate::cpu::linear::nvfp4::PanelBlock;
use crate::cpu::linear::{Column, ROWS};

/// NVFP4 tile times up to six tokens; see `linear/nvfp4.rs`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn nvfp4(codes: &[[u8; 64]], scales: &[[u8; ROWS]], cells: &[Cell], out: &mut [Column]) {
    debug_assert_eq!(codes.len(), scales.len() * 2);
    match out.len() {
        1 => nvfp4_tokens::<1, 2>(codes, scales, cells, out),
        2 => nvfp4_tokens::<2, 2>(codes, scales, cells, out),
        3 => nvfp4_tokens::<3, 1>(codes, scales, cells, out),
        4 => nvfp4_tokens::<4, 1>(codes, scales, cells, out),
        5 => nvfp4_tokens::<5, 1>(codes, scales, cells, out),
        _ => nvfp4_tokens::<6, 1>(codes, scales, cells, out),
    }
}

/// `M` tokens; `H` half tiles of eight rows together (two give a short batch more independent sums).
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn nvfp4_tokens<const M: usize, const H: usize>(
    codes: &[[u8; 64]],
    scales: &[[u8; ROWS]],
    cells: &[Cell],
    out: &mut [Column],
) {
    // SAFETY: plain loads from arrays.
    let lut = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(BIASED.as_ptr().cast())) };
    let ones = _mm256_set1_epi16(1);
    for first in (0..2).step_by(H) {
        let mut acc = [[_mm256_setzero_ps(); H]; M];
        for ((pair, scales), cells) in codes.as_chunks::<2>().0.iter().zip(scales).zip(cells.as_chunks::<M>().0) {
            let ahead = pair.as_ptr().cast::<i8>().wrapping_add(AHEAD);
            _mm_prefetch::<_MM_HINT_T0>(ahead);
            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(64));
            for h in 0..H {
                let at = (first + h) * 32;
                // SAFETY: 32 bytes at 0 or 32 of 64, and 8 bytes at 0 or 8 of 16.
                let (p0, p1, s) = unsafe {
                    let p0 = _mm256_loadu_si256(pair[0].as_ptr().add(at).cast());
                    let p1 = _mm256_loadu_si256(pair[1].as_ptr().add(at).cast());
                    (p0, p1, _mm_loadl_epi64(scales.as_ptr().add(at / 4).cast()))
                };
                let (w, scale) = decode(p0, p1, s, lut);
                for t in 0..M {
                    let dot = dot_unsigned(w, &cells[t], ones);
                    let dot = _mm256_add_epi32(dot, broadcast(&cells[t].minus_12));
                    let s = _mm256_mul_ps(scale, _mm256_set1_ps(cells[t].scale));
                    acc[t][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), s, acc[t][h]);
                }
            }
        }
        for (column, acc) in out.iter_mut().zip(acc) {
            for (h, acc) in acc.into_iter().enumerate() {
                // SAFETY: eight floats at 0 or 8 of 16.
                unsafe { _mm256_storeu_ps(column.as_mut_ptr().add((first + h) * 8), acc) };
            }
        }
    }
}

/// Biased weights of eight rows, in four groups of four columns, and the rows' scales.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn decode(p0: __m256i, p1: __m256i, scales: __m128i, lut: __m256i) -> ([__m256i; 4], __m256) {
    let low = _mm256_set1_epi8(15);
    let w = [
        _mm256_shuffle_epi8(lut, _mm256_and_si256(p0, low)),
        _mm256_shuffle_epi8(lut, _mm256_and_si256(_mm256_srli_epi16::<4>(p0), low)),
        _mm256_shuffle_epi8(lut, _mm256_and_si256(p1, low)),
        _mm256_shuffle_epi8(lut, _mm256_and_si256(_mm256_srli_epi16::<4>(p1), low)),
    ];
    // An E4M3 code shifted left by 7 is the half-precision number 2^8 times smaller.
    (w, _mm256_cvtph_ps(_mm_slli_epi16::<7>(_mm_cvtepu8_epi16(scales))))
}

/// Decodes a tile for [`nvfp4_panel`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn unpack(codes: &[[u8; 64]], scales: &[[u8; ROWS]], panel: &mut [PanelBlock]) {
    // SAFETY: a plain load from an array.
    let lut = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(BIASED.as_ptr().cast())) };
    for ((pair, scales), block) in codes.as_chunks::<2>().0.iter().zip(scales).zip(panel) {
        for half in 0..2 {
            // SAFETY: 32 bytes at 0 or 32 of 64, and 8 bytes at 0 or 8 of 16.
            let (p0, p1, s) = unsafe {
                let p0 = _mm256_loadu_si256(pair[0].as_ptr().add(half * 32).cast());
                let p1 = _mm256_loadu_si256(pair[1].as_ptr().add(half * 32).cast());
                (p0, p1, _mm_loadl_epi64(scales.as_ptr().add(half * 8).cast()))
            };
            let (w, scale) = decode(p0, p1, s, lut);
            for (to, w) in block.weights[half].iter_mut().zip(w) {
                // SAFETY: a group is 32 bytes.
                unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), w) };
            }
            // SAFETY: eight floats at 0 or 8 of 16.
            unsafe { _mm256_storeu_ps(block.scales.as_mut_ptr().add(half * 8), scale) };
        }
    }
}

/// A decoded tile times up to six tokens.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn nvfp4_panel(panel: &[PanelBlock], cells: &[Cell], out: &mut [Column]) {
    match out.len() {
        1 => panel_tokens::<1>(panel, cells, out),
        2 => panel_tokens::<2>(panel, cells, out),
        3 => panel_tokens::<3>(panel, cells, out),
        4 => panel_tokens::<4>(panel, cells, out),
        5 => panel_tokens::<5>(panel, cells, out),
        _ => panel_tokens::<6>(panel, cells, out),
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn panel_tokens<const M: usize>(panel: &[PanelBlock], cells: &[Cell], out: &mut [Column]) {
    let ones = _mm256_set1_epi16(1);
    for half in 0..2 {
        let mut acc = [_mm256_setzero_ps(); M];
        for (block, cells) in panel.iter().zip(cells.as_chunks::<M>().0) {
            // SAFETY: groups of 32 bytes; eight floats at 0 or 8 of 16.
            let (w, scale) = unsafe {
                let group = |g: usize| _mm256_loadu_si256(block.weights[half][g].as_ptr().cast());
                let w = [group(0), group(1), group(2), group(3)];
                (w, _mm256_loadu_ps(block.scales.as_ptr().add(half * 8)))
            };
            for t in 0..M {
                let dot = dot_unsigned(w, &cells[t], ones);
                let dot = _mm256_add_epi32(dot, broadcast(&cells[t].minus_12));
                let s = _mm256_mul_ps(scale, _mm256_set1_ps(cells[t].scale));
                acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), s, acc[t]);
            }
        }
        for (column, acc) in out.iter_mut().zip(acc) {
            // SAFETY: eight floats at 0 or 8 of 16.
            unsafe { _mm256_storeu_ps(column.as_mut_ptr().add(half * 8), acc) };
        }
    }
}

/// Dot products of eight rows with a cell. Weights are at most 24, so four sums of two products stay below 2^15.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn dot_unsigned(w: [__m256i; 4], cell: &Cell, ones: __m256i) -> __m256i {
    let q = quads(cell);
    let a = _mm256_maddubs_epi16(w[0], broadcast(&q[0]));
    let b = _mm256_maddubs_epi16(w[1], broadcast(&q[1]));
    let c = _mm256_maddubs_epi16(w[2], broadcast(&q[2]));
    let d = _mm256_maddubs_epi16(w[3], broadcast(&q[3]));
    let sums = _mm256_add_epi16(_mm256_add_epi16(a, b), _mm256_add_epi16(c, d));
    _mm256_madd_epi16(sums, ones)
}

/// Four bytes from memory to all lanes: a load, no shuffle.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn broadcast(v: &i32) -> __m256i {
    // SAFETY: an i32 is four readable bytes, and any bits are a float.
    _mm256_castps_si256(_mm256_broadcast_ss(unsafe { &*std::ptr::from_ref(v).cast() }))
}

/// The sixteen int8 of a cell as four groups of four.
#[inline(always)]
pub(super) fn quads(cell: &Cell) -> &[i32; 4] {
    // SAFETY: `q` is the first field of a 32-byte aligned `repr(C)` struct, so 16 bytes aligned to 4.
    unsafe { &*std::ptr::from_ref(cell).cast() }
}

/// int8 tile times up to six tokens; see `linear/int8.rs`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn int8(weights: &[[u8; 64]], scales: &[[f16; ROWS]], cells: &[Cell], out: &mut [Column]) {
    debug_assert_eq!(weights.len(), scales.len() * 8);
    match out.len() {
        1 => int8_tokens::<1>(weights, scales, cells, out),
        2 => int8_tokens::<2>(weights, scales, cells, out),
        3 => int8_tokens::<3>(weights, scales, cells, out),
        4 => int8_tokens::<4>(weights, scales, cells, out),
        5 => int8_tokens::<5>(weights, scales, cells, out),
        _ => int8_tokens::<6>(weights, scales, cells, out),
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn int8_tokens<const M: usize>(weights: &[[u8; 64]], scales: &[[f16; ROWS]], cells: &[Cell], out: &mut [Column]) {
    let ones = _mm256_set1_epi16(1);
    for half in 0..2 {
        let mut acc = [_mm256_setzero_ps(); M];
        for (b, (block, cells)) in weights.as_chunks::<4>().0.iter().zip(cells.as_chunks::<M>().0).enumerate() {
            // SAFETY: 32 bytes at 0 or 32 of 64; eight halves at 0 or 8 of 16; a prefetch may touch any address.
            let (w, scale) = unsafe {
                _mm_prefetch::<_MM_HINT_T0>(block.as_ptr().cast::<i8>().wrapping_add(AHEAD));
                let w: [__m256i; 4] =
                    std::array::from_fn(|g| _mm256_loadu_si256(block[g].as_ptr().add(half * 32).cast()));
                (w, _mm256_cvtph_ps(_mm_loadu_si128(scales[b / 2].as_ptr().add(half * 8).cast())))
            };
            for t in 0..M {
                let q = quads(&cells[t]);
                let mut dot = _mm256_setzero_si256();
                for g in 0..4 {
                    // |w| * (a with w's sign): two products are at most 2 * 127^2, below 2^15.
                    let a = _mm256_sign_epi8(broadcast(&q[g]), w[g]);
                    let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w[g]), a);
                    dot = _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, ones));
                }
                let s = _mm256_mul_ps(scale, _mm256_set1_ps(cells[t].scale));
                acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), s, acc[t]);
            }
        }
        for (column, acc) in out.iter_mut().zip(acc) {
            // SAFETY: eight floats at 0 or 8 of 16.
            unsafe { _mm256_storeu_ps(column.as_mut_ptr().add(half * 8), acc) };
        }
    }
}
