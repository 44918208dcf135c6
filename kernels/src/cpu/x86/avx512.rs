//! AVX-512 VNNI kernels for NVFP4: four products a lane in one exact instruction.
//!
//! A lane of 32 bits belongs to a row and a half of the cell, so that one broadcast of eight bytes brings a token's numbers for eight
//! rows. Both registers of sums fit in 16 bits: packed, they meet their scales in one instruction, which leaves rows in order.

use std::arch::x86_64::*;

use super::{AHEAD, BIASED};
use crate::cpu::cells::{Cell, TILE};
use crate::cpu::linear::Column;
use crate::cpu::linear::nvfp4::{PanelCell, Scales, Tile};

/// Sums of eight rows and of the other eight, for `M` tokens.
type Both<const M: usize> = [[__m512i; 2]; M];

/// NVFP4 tile times up to four tokens; see `linear/nvfp4.rs`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(crate) fn nvfp4(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    match out.len() {
        1 => nvfp4_tokens::<1>(tile, cells, out),
        2 => nvfp4_tokens::<2>(tile, cells, out),
        3 => nvfp4_tokens::<3>(tile, cells, out),
        _ => nvfp4_tokens::<4>(tile, cells, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn nvfp4_tokens<const M: usize>(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    let mut acc = [_mm512_setzero_ps(); M];
    let groups = tile.codes.as_chunks::<4>().0.iter().zip(tile.scales);
    for ((lines, scales), cells) in groups.zip(cells.as_chunks::<M>().0) {
        prefetch(scales, AHEAD * size_of::<Scales>() / size_of_val(lines));
        let mut sums = first_sums(cells);
        for (p, line) in lines.iter().enumerate() {
            prefetch(line, AHEAD);
            add_products(&mut sums, decode(line), cells, p);
        }
        scale_sums(&mut acc, &sums, decode_scales(scales), cells);
    }
    store(&acc, tile.global, out);
}

/// Decodes a tile and multiplies it with any number of tokens.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(crate) fn nvfp4_panel(tile: Tile<'_>, panel: &mut [PanelCell], cells: &[Cell], out: &mut [Column]) {
    for ((lines, scales), to) in tile.codes.as_chunks::<4>().0.iter().zip(tile.scales).zip(&mut *panel) {
        for (line, to) in lines.iter().zip(to.weights.as_chunks_mut::<2>().0) {
            for (to, weights) in to.iter_mut().zip(decode(line)) {
                // SAFETY: 64 bytes.
                unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), weights) };
            }
        }
        prefetch(scales, size_of_val(tile.scales));
        // SAFETY: 32 16-bit numbers are 64 bytes.
        unsafe { _mm512_storeu_si512(to.scales.as_mut_ptr().cast(), decode_scales(scales)) };
    }
    let next = tile.codes.as_ptr_range().end;
    for (i, (cells, out)) in cells.chunks(panel.len() * TILE).zip(out.chunks_mut(TILE)).enumerate() {
        // Two token tiles ask for all of the next tile's codes, two lines a cell. The others ask again, which costs next to nothing.
        let next = next.wrapping_add(i % 2 * panel.len() * 2);
        match out.len() {
            1 => panel_tokens::<1>(panel, tile.global, next, cells, out),
            2 => panel_tokens::<2>(panel, tile.global, next, cells, out),
            3 => panel_tokens::<3>(panel, tile.global, next, cells, out),
            _ => panel_tokens::<4>(panel, tile.global, next, cells, out),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn panel_tokens<const M: usize>(
    panel: &[PanelCell],
    factor: f32,
    next: *const [u8; 64],
    cells: &[Cell],
    out: &mut [Column],
) {
    let mut acc = [_mm512_setzero_ps(); M];
    for (c, (block, cells)) in panel.iter().zip(cells.as_chunks::<M>().0).enumerate() {
        for line in 0..2 {
            _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(c * 2 + line).cast());
        }
        let mut sums = first_sums(cells);
        for (p, [a, b]) in block.weights.as_chunks::<2>().0.iter().enumerate() {
            // SAFETY: 64 bytes each.
            let weights = unsafe { [_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(b.as_ptr().cast())] };
            add_products(&mut sums, weights, cells, p);
        }
        // SAFETY: 32 16-bit numbers are 64 bytes.
        let scales = unsafe { _mm512_loadu_si512(block.scales.as_ptr().cast()) };
        scale_sums(&mut acc, &sums, scales, cells);
    }
    store(&acc, factor, out);
}

/// Asks for the cache line that lies `ahead` bytes behind the beginning of `from`, if there is one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn prefetch<T>(from: &T, ahead: usize) {
    _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(from).cast::<i8>().wrapping_add(ahead));
}

/// What takes back the bias, which every sum begins with.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn first_sums<const M: usize>(cells: &[Cell; M]) -> Both<M> {
    let mut sums = [[_mm512_setzero_si512(); 2]; M];
    for t in 0..M {
        sums[t] = [eight_bytes(cells[t].back.as_ptr().cast()); 2];
    }
    sums
}

/// Adds the products of eight places of the cells, four columns of either half.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn add_products<const M: usize>(sums: &mut Both<M>, weights: [__m512i; 2], cells: &[Cell; M], p: usize) {
    for t in 0..M {
        let q = eight_bytes(cells[t].q[8 * p..8 * p + 8].as_ptr().cast());
        for rows in 0..2 {
            sums[t][rows] = _mm512_dpbusd_epi32(sums[t][rows], weights[rows], q);
        }
    }
}

/// `acc += float(sum of halves, each times its scale) * act_scale`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn scale_sums<const M: usize>(acc: &mut [__m512; M], sums: &Both<M>, scales: __m512i, cells: &[Cell; M]) {
    for t in 0..M {
        let both = _mm512_packs_epi32(sums[t][0], sums[t][1]);
        let sum = _mm512_cvtepi32_ps(_mm512_madd_epi16(both, scales));
        acc[t] = _mm512_fmadd_ps(sum, _mm512_set1_ps(cells[t].scale), acc[t]);
    }
}

/// Biased weights of a line: of the rows in its low and in its high nibbles.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn decode(line: &[u8; 64]) -> [__m512i; 2] {
    // SAFETY: a plain load from an array; a line is 64 bytes.
    let (table, codes) = unsafe {
        let table = _mm512_broadcast_i32x4(_mm_loadu_si128(BIASED.as_ptr().cast()));
        (table, _mm512_loadu_si512(line.as_ptr().cast()))
    };
    let mask = _mm512_set1_epi8(15);
    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), mask);
    [_mm512_shuffle_epi8(table, _mm512_and_si512(codes, mask)), _mm512_shuffle_epi8(table, high)]
}

/// Integer scales, two a row: `mantissa << shift`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn decode_scales(scales: &Scales) -> __m512i {
    // SAFETY: 32 scales are 32 bytes.
    let scales = _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(scales.as_ptr().cast()) });
    let mantissa = _mm512_and_si512(scales, _mm512_set1_epi16(15));
    _mm512_sllv_epi16(mantissa, _mm512_srli_epi16::<4>(scales))
}

/// Eight bytes from memory to all lanes: a load, no shuffle.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn eight_bytes(from: *const i64) -> __m512i {
    // SAFETY: the callers' pointers are to eight bytes of a cell.
    _mm512_set1_epi64(unsafe { from.read_unaligned() })
}

/// Results, times `factor`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn store<const M: usize>(acc: &[__m512; M], factor: f32, out: &mut [Column]) {
    for (column, acc) in out.iter_mut().zip(acc) {
        // SAFETY: a column is sixteen floats.
        unsafe { _mm512_storeu_ps(column.as_mut_ptr(), _mm512_mul_ps(*acc, _mm512_set1_ps(factor))) };
    }
}
