//! AVX-512 VNNI kernels for NVFP4: four products a lane in one exact instruction.
//!
//! A lane of 32 bits belongs to a row and a half of the cell, so that one broadcast of eight bytes brings a token's numbers for eight
//! rows. Both registers of sums fit in 16 bits: packed, they meet their scales in one instruction, which leaves rows in order.
//!
//! Ice Lake loads one such register a cycle and multiplies two (measured), so a broadcast serves two tiles where it can.

use std::arch::x86_64::*;

use super::{AHEAD, BIASED};
use crate::cpu::cells::{Cell, TILE};
use crate::cpu::linear::Column;
use crate::cpu::linear::nvfp4::{PanelCell, Scales, Tile};

/// For `M` tokens and `R` tiles: sums of eight rows and of the other eight.
type Sums<const M: usize, const R: usize> = [[[__m512i; 2]; R]; M];
/// Results so far.
type Results<const M: usize, const R: usize> = [[__m512; R]; M];

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
    let mut acc = [[_mm512_setzero_ps()]; M];
    for ((lines, scales), cells) in tile.codes.iter().zip(tile.scales).zip(cells.as_chunks::<M>().0) {
        prefetch(scales, AHEAD * size_of::<Scales>() / size_of_val(lines));
        let mut sums = first_sums(cells);
        for (p, line) in lines.iter().enumerate() {
            prefetch(line, AHEAD);
            add_products(&mut sums, &[decode(line)], cells, p);
        }
        scale_sums(&mut acc, &sums, &[decode_scales(scales)], cells);
    }
    store(&acc, 0, tile.global, out);
}

/// Decodes `R` tiles of as many columns and multiplies them with any number of tokens. A cell's tiles lie side by side in `panel`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(crate) fn nvfp4_panel<const R: usize>(
    tiles: [Tile<'_>; R],
    panel: &mut [PanelCell],
    cells: &[Cell],
    mut out: [&mut [Column]; R],
) {
    let panel = panel.as_chunks_mut::<R>().0;
    for (c, to) in panel.iter_mut().enumerate() {
        for r in 0..R {
            decode_cell(tiles[r], c, &mut to[r]);
        }
    }
    let tokens = out[0].len();
    for (i, cells) in cells.chunks(panel.len() * TILE).enumerate() {
        let these = i * TILE..tokens.min((i + 1) * TILE);
        let out = out.each_mut().map(|out| &mut out[these.clone()]);
        // Two token tiles ask for all of the next tiles' codes, two lines a cell. The others ask again, which costs next to nothing.
        let turn = i % 2 * 2;
        match these.len() {
            1 => panel_tokens::<1, R>(&tiles, panel, turn, cells, out),
            2 => panel_tokens::<2, R>(&tiles, panel, turn, cells, out),
            3 => panel_tokens::<3, R>(&tiles, panel, turn, cells, out),
            _ => panel_tokens::<4, R>(&tiles, panel, turn, cells, out),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn decode_cell(tile: Tile<'_>, c: usize, to: &mut PanelCell) {
    for (line, to) in tile.codes[c].iter().zip(to.weights.as_chunks_mut::<2>().0) {
        for (to, weights) in to.iter_mut().zip(decode(line)) {
            // SAFETY: 64 bytes.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), weights) };
        }
    }
    prefetch(&tile.scales[c], tile.ahead * size_of_val(tile.scales));
    // SAFETY: 32 16-bit numbers are 64 bytes.
    unsafe { _mm512_storeu_si512(to.scales.as_mut_ptr().cast(), decode_scales(&tile.scales[c])) };
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn panel_tokens<const M: usize, const R: usize>(
    tiles: &[Tile<'_>; R],
    panel: &[[PanelCell; R]],
    turn: usize,
    cells: &[Cell],
    out: [&mut [Column]; R],
) {
    let mut next = [std::ptr::null::<[u8; 64]>(); R];
    for r in 0..R {
        let ahead = tiles[r].ahead * tiles[r].codes.len();
        next[r] = tiles[r].codes.as_ptr().wrapping_add(ahead).cast::<[u8; 64]>().wrapping_add(turn * panel.len());
    }
    let mut acc = [[_mm512_setzero_ps(); R]; M];
    for (c, (block, cells)) in panel.iter().zip(cells.as_chunks::<M>().0).enumerate() {
        for r in 0..R {
            for line in 0..2 {
                _mm_prefetch::<_MM_HINT_T0>(next[r].wrapping_add(c * 2 + line).cast());
            }
        }
        let mut sums = first_sums(cells);
        for p in 0..4 {
            let mut weights = [[_mm512_setzero_si512(); 2]; R];
            for r in 0..R {
                let [a, b] = &block[r].weights.as_chunks::<2>().0[p];
                // SAFETY: 64 bytes each.
                weights[r] = unsafe { [_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(b.as_ptr().cast())] };
            }
            add_products(&mut sums, &weights, cells, p);
        }
        let mut scales = [_mm512_setzero_si512(); R];
        for r in 0..R {
            // SAFETY: 32 16-bit numbers are 64 bytes.
            scales[r] = unsafe { _mm512_loadu_si512(block[r].scales.as_ptr().cast()) };
        }
        scale_sums(&mut acc, &sums, &scales, cells);
    }
    for r in 0..R {
        store(&acc, r, tiles[r].global, &mut *out[r]);
    }
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
fn first_sums<const M: usize, const R: usize>(cells: &[Cell; M]) -> Sums<M, R> {
    let mut sums = [[[_mm512_setzero_si512(); 2]; R]; M];
    for t in 0..M {
        sums[t] = [[eight_bytes(cells[t].back.as_ptr().cast()); 2]; R];
    }
    sums
}

/// Adds the products of eight places of the cells, four columns of either half.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn add_products<const M: usize, const R: usize>(
    sums: &mut Sums<M, R>,
    weights: &[[__m512i; 2]; R],
    cells: &[Cell; M],
    p: usize,
) {
    for t in 0..M {
        let q = eight_bytes(cells[t].q[8 * p..8 * p + 8].as_ptr().cast());
        for r in 0..R {
            for rows in 0..2 {
                sums[t][r][rows] = _mm512_dpbusd_epi32(sums[t][r][rows], weights[r][rows], q);
            }
        }
    }
    pin(sums.as_flattened_mut().as_flattened_mut());
}

/// Keeps the order of places as it is written: else the compiler puts one chain of additions behind the other, and spills.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn pin(sums: &mut [__m512i]) {
    for value in sums {
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {} */", inout(zmm_reg) * value, options(pure, nomem, nostack, preserves_flags));
        }
    }
}

/// `acc += float(sum of halves, each times its scale) * act_scale`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn scale_sums<const M: usize, const R: usize>(
    acc: &mut Results<M, R>,
    sums: &Sums<M, R>,
    scales: &[__m512i; R],
    cells: &[Cell; M],
) {
    for t in 0..M {
        let by = _mm512_set1_ps(cells[t].scale);
        for r in 0..R {
            let both = _mm512_packs_epi32(sums[t][r][0], sums[t][r][1]);
            acc[t][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_madd_epi16(both, scales[r])), by, acc[t][r]);
        }
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

/// Results of tile `r`, times `factor`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn store<const M: usize, const R: usize>(acc: &Results<M, R>, r: usize, factor: f32, out: &mut [Column]) {
    for (column, acc) in out.iter_mut().zip(acc) {
        // SAFETY: a column is sixteen floats.
        unsafe { _mm512_storeu_ps(column.as_mut_ptr(), _mm512_mul_ps(acc[r], _mm512_set1_ps(factor))) };
    }
}
