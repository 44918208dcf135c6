//! The AVX2 kernel for int8 weights: products of two in 16 bits, which they just fit, then exact sums in 32.

use std::arch::x86_64::*;

use super::AHEAD;
use super::avx2::{broadcast, load_pair, pin, prefetch, store};
use crate::cpu::cells::{Cell, TILE};
use crate::cpu::linear::Column;
use crate::cpu::linear::int8::Tile;

/// int8 tile times any number of tokens; see `linear/int8.rs`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn int8(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    for (cells, out) in cells.chunks(tile.scales.len() * TILE).zip(out.chunks_mut(TILE)) {
        match out.len() {
            1 => int8_tokens::<1>(tile, cells, out),
            2 => int8_tokens::<2>(tile, cells, out),
            3 => int8_tokens::<3>(tile, cells, out),
            _ => int8_tokens::<4>(tile, cells, out),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn int8_tokens<const M: usize>(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    let ones = _mm256_set1_epi16(1);
    let mut acc = [[_mm256_setzero_ps(); 2]; M];
    for ((lines, scales), cells) in tile.weights.iter().zip(tile.scales).zip(cells.as_chunks::<M>().0) {
        let mut dots = [[_mm256_setzero_si256(); 2]; M];
        for (g, line) in lines.iter().enumerate() {
            prefetch(line, AHEAD);
            let w = load_pair(line);
            let magnitude = [_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])];
            for t in 0..M {
                let q = broadcast(cells[t].q[4 * g..4 * g + 4].as_ptr().cast());
                for half in 0..2 {
                    // |w| * (q with w's sign): two products are at most 2 * 127^2, below 2^15.
                    let pairs = _mm256_maddubs_epi16(magnitude[half], _mm256_sign_epi8(q, w[half]));
                    dots[t][half] = _mm256_add_epi32(dots[t][half], _mm256_madd_epi16(pairs, ones));
                }
            }
            pin(&mut dots);
        }
        for half in 0..2 {
            // SAFETY: eight halves at 0 or 8 of 16.
            let scale = unsafe { _mm256_cvtph_ps(_mm_loadu_si128(scales.as_ptr().add(half * 8).cast())) };
            for t in 0..M {
                let by = _mm256_mul_ps(scale, _mm256_broadcast_ss(&cells[t].scale));
                acc[t][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[t][half]), by, acc[t][half]);
            }
        }
    }
    store(&acc, 1.0, out);
}
