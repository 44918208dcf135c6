//! The AVX-512 VNNI kernel for int8 weights, which are packed with 128 added.

use std::arch::x86_64::*;

use half::f16;

use super::AHEAD;
use super::avx512::{prefetch, store};
use crate::cpu::cells::{CELL, Cell, TILE};
use crate::cpu::linear::{Column, ROWS};

/// int8 tile times any number of tokens; see `linear/int8.rs`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(crate) fn int8(weights: &[[u8; 64]], scales: &[[f16; ROWS]], cells: &[Cell], out: &mut [Column]) {
    debug_assert_eq!(weights.len(), scales.len() * 8);
    for (cells, out) in cells.chunks(scales.len() * TILE).zip(out.chunks_mut(TILE)) {
        match out.len() {
            1 => int8_tokens::<1>(weights, scales, cells, out),
            2 => int8_tokens::<2>(weights, scales, cells, out),
            3 => int8_tokens::<3>(weights, scales, cells, out),
            _ => int8_tokens::<4>(weights, scales, cells, out),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn int8_tokens<const M: usize>(weights: &[[u8; 64]], scales: &[[f16; ROWS]], cells: &[Cell], out: &mut [Column]) {
    let mut acc = [_mm512_setzero_ps(); M];
    for ((lines, scales), cells) in weights.as_chunks::<8>().0.iter().zip(scales).zip(cells.as_chunks::<M>().0) {
        let mut dots = [_mm512_setzero_si512(); M];
        for t in 0..M {
            dots[t] = _mm512_set1_epi32(cells[t].minus_128);
        }
        prefetch(scales, AHEAD * size_of_val(scales) / size_of_val(lines));
        for (g, line) in lines.iter().enumerate() {
            prefetch(line, AHEAD);
            // SAFETY: a line is 64 bytes.
            let w = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
            for t in 0..M {
                dots[t] = _mm512_dpbusd_epi32(dots[t], w, _mm512_set1_epi32(quads(&cells[t])[g]));
            }
        }
        // SAFETY: sixteen halves are 32 bytes.
        let scale = _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(scales.as_ptr().cast()) });
        for t in 0..M {
            let by = _mm512_mul_ps(scale, _mm512_set1_ps(cells[t].scale));
            acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[t]), by, acc[t]);
        }
    }
    store(&acc, 1.0, out);
}

/// The numbers of a cell, four together.
#[inline(always)]
fn quads(cell: &Cell) -> &[i32; CELL / 4] {
    // SAFETY: `q` is the first field of a 16-byte aligned `repr(C)` struct, so 32 bytes aligned to 4.
    unsafe { &*std::ptr::from_ref(cell).cast() }
}
