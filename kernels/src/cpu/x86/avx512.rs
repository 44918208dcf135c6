//! AVX-512 VNNI kernels: four products a lane in one exact instruction.

use std::arch::x86_64::*;

use half::f16;

use super::avx2::quads;
use super::{AHEAD, BIASED};
use crate::cpu::cells::Cell;
use crate::cpu::linear::{Column, ROWS};

/// NVFP4 tile times up to six tokens; see `linear/nvfp4.rs`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(crate) fn nvfp4(codes: &[[u8; 64]], scales: &[[u8; ROWS]], cells: &[Cell], out: &mut [Column]) {
    debug_assert_eq!(codes.len(), scales.len() * 2);
    match out.len() {
        1 => nvfp4_tokens::<1>(codes, scales, cells, out),
        2 => nvfp4_tokens::<2>(codes, scales, cells, out),
        3 => nvfp4_tokens::<3>(codes, scales, cells, out),
        4 => nvfp4_tokens::<4>(codes, scales, cells, out),
        5 => nvfp4_tokens::<5>(codes, scales, cells, out),
        _ => nvfp4_tokens::<6>(codes, scales, cells, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn nvfp4_tokens<const M: usize>(codes: &[[u8; 64]], scales: &[[u8; ROWS]], cells: &[Cell], out: &mut [Column]) {
    // SAFETY: a plain load from an array.
    let lut = unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(BIASED.as_ptr().cast())) };
    let low = _mm512_set1_epi8(15);
    let mut acc = [_mm512_setzero_ps(); M];
    for ((pair, scales), cells) in codes.as_chunks::<2>().0.iter().zip(scales).zip(cells.as_chunks::<M>().0) {
        // SAFETY: whole arrays are loaded; a prefetch may touch any address.
        let (p0, p1, s) = unsafe {
            let ahead = pair.as_ptr().cast::<i8>().wrapping_add(AHEAD);
            _mm_prefetch::<_MM_HINT_T0>(ahead);
            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(64));
            let p0 = _mm512_loadu_si512(pair[0].as_ptr().cast());
            (p0, _mm512_loadu_si512(pair[1].as_ptr().cast()), _mm_loadu_si128(scales.as_ptr().cast()))
        };
        let w = [
            _mm512_shuffle_epi8(lut, _mm512_and_si512(p0, low)),
            _mm512_shuffle_epi8(lut, _mm512_and_si512(_mm512_srli_epi16::<4>(p0), low)),
            _mm512_shuffle_epi8(lut, _mm512_and_si512(p1, low)),
            _mm512_shuffle_epi8(lut, _mm512_and_si512(_mm512_srli_epi16::<4>(p1), low)),
        ];
        // An E4M3 code shifted left by 7 is the half-precision number 2^8 times smaller.
        let scale = _mm512_cvtph_ps(_mm256_slli_epi16::<7>(_mm256_cvtepu8_epi16(s)));
        for t in 0..M {
            let dot = dot(_mm512_set1_epi32(cells[t].minus_12), w, &cells[t]);
            let s = _mm512_mul_ps(scale, _mm512_set1_ps(cells[t].scale));
            acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), s, acc[t]);
        }
    }
    store(acc, out);
}

/// int8 tile times up to six tokens; see `linear/int8.rs`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn int8_tokens<const M: usize>(weights: &[[u8; 64]], scales: &[[f16; ROWS]], cells: &[Cell], out: &mut [Column]) {
    // Adding 128 to a signed byte flips its top bit.
    let unsign = _mm512_set1_epi8(-128);
    let mut acc = [_mm512_setzero_ps(); M];
    for (b, (block, cells)) in weights.as_chunks::<4>().0.iter().zip(cells.as_chunks::<M>().0).enumerate() {
        // SAFETY: whole arrays are loaded; a prefetch may touch any address.
        let (w, scale) = unsafe {
            _mm_prefetch::<_MM_HINT_T0>(block.as_ptr().cast::<i8>().wrapping_add(AHEAD));
            let w: [__m512i; 4] =
                std::array::from_fn(|g| _mm512_xor_si512(_mm512_loadu_si512(block[g].as_ptr().cast()), unsign));
            (w, _mm512_cvtph_ps(_mm256_loadu_si256(scales[b / 2].as_ptr().cast())))
        };
        for t in 0..M {
            let dot = dot(_mm512_set1_epi32(cells[t].minus_128), w, &cells[t]);
            let s = _mm512_mul_ps(scale, _mm512_set1_ps(cells[t].scale));
            acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), s, acc[t]);
        }
    }
    store(acc, out);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn dot(start: __m512i, w: [__m512i; 4], cell: &Cell) -> __m512i {
    let q = quads(cell);
    let d = _mm512_dpbusd_epi32(start, w[0], _mm512_set1_epi32(q[0]));
    let d = _mm512_dpbusd_epi32(d, w[1], _mm512_set1_epi32(q[1]));
    let d = _mm512_dpbusd_epi32(d, w[2], _mm512_set1_epi32(q[2]));
    _mm512_dpbusd_epi32(d, w[3], _mm512_set1_epi32(q[3]))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn store<const M: usize>(acc: [__m512; M], out: &mut [Column]) {
    for (column, acc) in out.iter_mut().zip(acc) {
        // SAFETY: a column is sixteen floats.
        unsafe { _mm512_storeu_ps(column.as_mut_ptr(), acc) };
    }
}
