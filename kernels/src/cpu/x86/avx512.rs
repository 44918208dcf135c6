//! AVX-512 VNNI kernels: four products a lane in one exact instruction.

use std::arch::x86_64::*;

use half::f16;

use super::BIASED;
use crate::cpu::cells::{Cell, TILE};
use crate::cpu::linear::nvfp4::Tile;
use crate::cpu::linear::{Column, ROWS};

/// NVFP4 tile times any number of tokens; see `linear/nvfp4.rs`. A cell's first four groups of places are its first half.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(crate) fn nvfp4(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    for (cells, out) in cells.chunks(tile.scales.len() * TILE).zip(out.chunks_mut(TILE)) {
        match out.len() {
            1 => nvfp4_tokens::<1>(tile, cells, out),
            2 => nvfp4_tokens::<2>(tile, cells, out),
            3 => nvfp4_tokens::<3>(tile, cells, out),
            _ => nvfp4_tokens::<4>(tile, cells, out),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn nvfp4_tokens<const M: usize>(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    // SAFETY: a plain load from an array.
    let table = unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(BIASED.as_ptr().cast())) };
    let mask = _mm512_set1_epi8(15);
    let mut acc = [_mm512_setzero_ps(); M];
    let groups = tile.codes.as_chunks::<4>().0.iter().zip(tile.scales);
    for ((lines, scales), cells) in groups.zip(cells.as_chunks::<M>().0) {
        // Dot products of the two halves.
        let mut dots = [[_mm512_setzero_si512(); 2]; M];
        for t in 0..M {
            dots[t] = cells[t].minus_12.map(i32::from).map(|v| _mm512_set1_epi32(v));
        }
        for (p, line) in lines.iter().enumerate() {
            // SAFETY: a line is 64 bytes.
            let codes = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
            let low = _mm512_shuffle_epi8(table, _mm512_and_si512(codes, mask));
            let high = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16::<4>(codes), mask));
            for t in 0..M {
                let q = quads(&cells[t]);
                dots[t][0] = _mm512_dpbusd_epi32(dots[t][0], low, _mm512_set1_epi32(q[p]));
                dots[t][1] = _mm512_dpbusd_epi32(dots[t][1], high, _mm512_set1_epi32(q[p + 4]));
            }
        }
        // SAFETY: 32 scales are 32 bytes.
        let scales = _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(scales.as_ptr().cast()) });
        let mantissa = _mm512_and_si512(scales, _mm512_set1_epi16(15));
        let scales = _mm512_sllv_epi16(mantissa, _mm512_srli_epi16::<4>(scales));
        for t in 0..M {
            // Both fit in 16 bits: side by side, they meet their scales in one instruction.
            let both = _mm512_mask_blend_epi16(0xaaaa_aaaa, dots[t][0], _mm512_slli_epi32::<16>(dots[t][1]));
            let sum = _mm512_cvtepi32_ps(_mm512_madd_epi16(both, scales));
            acc[t] = _mm512_fmadd_ps(sum, _mm512_set1_ps(cells[t].scale), acc[t]);
        }
    }
    for (column, acc) in out.iter_mut().zip(acc) {
        // SAFETY: a column is sixteen floats.
        unsafe { _mm512_storeu_ps(column.as_mut_ptr(), _mm512_mul_ps(acc, _mm512_set1_ps(tile.global))) };
    }
}

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
    // Adding 128 to a signed byte flips its top bit.
    let unsign = _mm512_set1_epi8(-128);
    let mut acc = [_mm512_setzero_ps(); M];
    for ((lines, scales), cells) in weights.as_chunks::<8>().0.iter().zip(scales).zip(cells.as_chunks::<M>().0) {
        let mut dots = [_mm512_setzero_si512(); M];
        for t in 0..M {
            dots[t] = _mm512_set1_epi32(cells[t].minus_128);
        }
        for (g, line) in lines.iter().enumerate() {
            // SAFETY: a line is 64 bytes.
            let w = _mm512_xor_si512(unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }, unsign);
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
    for (column, acc) in out.iter_mut().zip(acc) {
        // SAFETY: a column is sixteen floats.
        unsafe { _mm512_storeu_ps(column.as_mut_ptr(), acc) };
    }
}

/// The numbers of a cell, four together.
#[inline(always)]
fn quads(cell: &Cell) -> &[i32; 8] {
    // SAFETY: `q` is the first field of a 16-byte aligned `repr(C)` struct, so 32 bytes aligned to 4.
    unsafe { &*std::ptr::from_ref(cell).cast() }
}
