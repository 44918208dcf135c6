//! The AVX-512 VNNI kernel for int8 weights, which are packed with 128 added.

use std::arch::x86_64::*;

use super::AHEAD;
use super::avx512::{pin, prefetch, store};
use crate::cpu::cells::{CELL, Cell, TILE};
use crate::cpu::linear::Column;
use crate::cpu::linear::int8::Tile;

/// `R` int8 tiles of a matrix times any number of tokens; see `linear/int8.rs`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(crate) fn int8<const R: usize>(tiles: [Tile<'_>; R], cells: &[Cell], mut out: [&mut [Column]; R]) {
    let tokens = out[0].len();
    for (i, cells) in cells.chunks(tiles[0].scales.len() * TILE).enumerate() {
        let these = i * TILE..tokens.min((i + 1) * TILE);
        let out = out.each_mut().map(|out| &mut out[these.clone()]);
        match these.len() {
            1 => int8_tokens::<1, R>(tiles, cells, out),
            2 => int8_tokens::<2, R>(tiles, cells, out),
            3 => int8_tokens::<3, R>(tiles, cells, out),
            _ => int8_tokens::<4, R>(tiles, cells, out),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn int8_tokens<const M: usize, const R: usize>(tiles: [Tile<'_>; R], cells: &[Cell], out: [&mut [Column]; R]) {
    let mut acc = [[_mm512_setzero_ps(); R]; M];
    for (c, cells) in cells.as_chunks::<M>().0.iter().enumerate() {
        let mut dots = [[_mm512_setzero_si512(); R]; M];
        for t in 0..M {
            dots[t] = [_mm512_set1_epi32(cells[t].minus_128); R];
        }
        for g in 0..8 {
            let mut w = [_mm512_setzero_si512(); R];
            for r in 0..R {
                let line = &tiles[r].weights[c][g];
                prefetch(line, AHEAD);
                // SAFETY: a line is 64 bytes.
                w[r] = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
            }
            for t in 0..M {
                let q = _mm512_set1_epi32(quads(&cells[t])[g]);
                for r in 0..R {
                    dots[t][r] = _mm512_dpbusd_epi32(dots[t][r], w[r], q);
                }
            }
            pin(dots.as_flattened_mut());
        }
        for r in 0..R {
            let scales = &tiles[r].scales[c];
            prefetch(scales, AHEAD / 16);
            // SAFETY: sixteen halves are 32 bytes.
            let scale = _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(scales.as_ptr().cast()) });
            for t in 0..M {
                let by = _mm512_mul_ps(scale, _mm512_set1_ps(cells[t].scale));
                acc[t][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[t][r]), by, acc[t][r]);
            }
        }
    }
    for (r, out) in out.into_iter().enumerate() {
        store(&acc, r, 1.0, out);
    }
}

/// The numbers of a cell, four together.
#[inline(always)]
fn quads(cell: &Cell) -> &[i32; CELL / 4] {
    // SAFETY: `q` is the first field of a 16-byte aligned `repr(C)` struct, so 32 bytes aligned to 4.
    unsafe { &*std::ptr::from_ref(cell).cast() }
}
