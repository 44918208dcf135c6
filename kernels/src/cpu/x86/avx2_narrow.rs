//! The AVX2 kernel for a first look at int8 weights: their upper six bits and rounded scales go the way of NVFP4 weights.

use std::arch::x86_64::*;

use super::avx2::{load_pair, multiply_panel, store_pair};
use crate::cpu::cells::Cell;
use crate::cpu::linear::Column;
use crate::cpu::linear::int8::{Looks, Tile};
use crate::cpu::linear::nvfp4::PanelCell;

/// Takes the upper bits of a tile and multiplies them with any number of tokens; see `linear/int8.rs`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn narrow(tile: Tile<'_>, looks: &Looks, panel: &mut [PanelCell], cells: &[Cell], out: &mut [Column]) {
    let by = _mm256_set1_ps(4.0 / looks.unit);
    for ((lines, scales), to) in tile.weights.iter().zip(tile.scales).zip(&mut *panel) {
        for (line, to) in lines.iter().zip(&mut to.weights) {
            // The next tile comes from memory while this one is multiplied.
            let [a, b] = load_pair(line);
            store_pair(to, [upper_bits(a), upper_bits(b)]);
        }
        for (half, to) in to.scales.iter_mut().enumerate() {
            // SAFETY: eight halves at 0 or 8 of 16; sixteen 16-bit numbers are 32 bytes.
            unsafe {
                let scale = _mm256_cvtph_ps(_mm_loadu_si128(scales.as_ptr().add(half * 8).cast()));
                let units = _mm256_cvtps_epi32(_mm256_mul_ps(scale, by));
                let twice = _mm256_or_si256(units, _mm256_slli_epi32::<16>(units));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), twice);
            }
        }
    }
    multiply_panel::<32, 2>(panel, looks.unit, tile.weights.as_ptr_range().end.cast(), cells, out);
}

/// `(w + 128 + 2) / 4`, at most 63: 32 more than a quarter of the weight.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn upper_bits(w: __m256i) -> __m256i {
    let biased = _mm256_adds_epu8(_mm256_xor_si256(w, _mm256_set1_epi8(-128)), _mm256_set1_epi8(2));
    _mm256_and_si256(_mm256_srli_epi16::<2>(biased), _mm256_set1_epi8(63))
}
