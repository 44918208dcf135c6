//! AVX2 kernels for NVFP4: sums of products in 16 bits, which hold what a half of a cell gives, then one exact sum in 32.
//!
//! A lane of 16 bits takes eight sums of two products of one half of a cell. On the way they may wrap, since weights carry a
//! bias; with what the cell says of that they end where they fit again.

use std::arch::x86_64::*;

use super::{AHEAD, BIASED, SHIFTS};
use crate::cpu::cells::{Cell, TILE};
use crate::cpu::linear::Column;
use crate::cpu::linear::nvfp4::{PanelCell, Scales, Tile};

/// A result of eight rows and of the other eight, for `M` tokens.
pub(super) type Both<V, const M: usize> = [[V; 2]; M];

/// NVFP4 tile times up to four tokens; see `linear/nvfp4.rs`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn nvfp4(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    match out.len() {
        1 => nvfp4_tokens::<1>(tile, cells, out),
        2 => nvfp4_tokens::<2>(tile, cells, out),
        3 => nvfp4_tokens::<3>(tile, cells, out),
        _ => nvfp4_tokens::<4>(tile, cells, out),
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn nvfp4_tokens<const M: usize>(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    let mut acc = [[_mm256_setzero_ps(); 2]; M];
    // Written out, the loop of two tokens spills and takes twice the time; that of one does not.
    let steps = if M == 2 { opaque(4) } else { 4 };
    let groups = tile.codes.iter().zip(tile.scales);
    for ((lines, scales), cells) in groups.zip(cells.as_chunks::<M>().0) {
        let mut sums = first_sums::<M, 12>(cells);
        prefetch(scales, AHEAD * size_of::<Scales>() / size_of_val(lines));
        for (p, line) in lines.iter().enumerate().take(steps) {
            prefetch(line, AHEAD);
            let [low, high] = decode(line);
            add_products(&mut sums, low, cells, p);
            add_products(&mut sums, high, cells, p + 4);
        }
        scale_sums(&mut acc, &sums, decode_scales(scales), cells);
    }
    store(&acc, tile.global, out);
}

/// `value`, of which the compiler knows nothing: it keeps a loop of so many steps.
#[inline(always)]
fn opaque(mut value: usize) -> usize {
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {} */", inout(reg) value, options(pure, nomem, nostack, preserves_flags)) };
    value
}

/// Asks for the cache line that lies `ahead` bytes behind the beginning of `from`, if there is one.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn prefetch<T>(from: &T, ahead: usize) {
    _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(from).cast::<i8>().wrapping_add(ahead));
}

/// Decodes a tile and multiplies it with any number of tokens.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn nvfp4_panel(tile: Tile<'_>, panel: &mut [PanelCell], cells: &[Cell], out: &mut [Column]) {
    // The next tile's codes come from memory while this one is multiplied: asked for here, they would be too many at once.
    for ((lines, scales), to) in tile.codes.iter().zip(tile.scales).zip(&mut *panel) {
        for (p, line) in lines.iter().enumerate() {
            let [low, high] = decode(line);
            store_pair(&mut to.weights[p], low);
            store_pair(&mut to.weights[p + 4], high);
        }
        prefetch(scales, tile.ahead * size_of_val(tile.scales));
        let scales = decode_scales(scales);
        for (to, scales) in to.scales.iter_mut().zip(scales) {
            // SAFETY: sixteen 16-bit numbers are 32 bytes.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), scales) };
        }
    }
    let next = tile.codes.as_ptr().wrapping_add(tile.ahead * tile.codes.len());
    multiply_panel::<12, 2>(panel, tile.global, next.cast(), cells, out);
}

/// Multiplies weights that are `BIAS` too large with any number of tokens. Meanwhile `next` comes from memory, `NEXT` lines a cell.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply_panel<const BIAS: u8, const NEXT: usize>(
    panel: &[PanelCell],
    factor: f32,
    next: *const [u8; 64],
    cells: &[Cell],
    out: &mut [Column],
) {
    for (i, (cells, out)) in cells.chunks(panel.len() * TILE).zip(out.chunks_mut(TILE)).enumerate() {
        // Four token tiles ask for eight lines a cell: int8's next tile, NVFP4's next two. The others ask again, which costs next to
        // nothing.
        let next = next.wrapping_add(i % 4 * panel.len() * NEXT);
        match out.len() {
            1 => panel_tokens::<1, BIAS, NEXT>(panel, factor, next, cells, out),
            2 => panel_tokens::<2, BIAS, NEXT>(panel, factor, next, cells, out),
            3 => panel_tokens::<3, BIAS, NEXT>(panel, factor, next, cells, out),
            _ => panel_tokens::<4, BIAS, NEXT>(panel, factor, next, cells, out),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn panel_tokens<const M: usize, const BIAS: u8, const NEXT: usize>(
    panel: &[PanelCell],
    factor: f32,
    next: *const [u8; 64],
    cells: &[Cell],
    out: &mut [Column],
) {
    let mut acc = [[_mm256_setzero_ps(); 2]; M];
    for (c, (block, cells)) in panel.iter().zip(cells.as_chunks::<M>().0).enumerate() {
        for line in 0..NEXT {
            _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(c * NEXT + line).cast());
        }
        let mut sums = first_sums::<M, BIAS>(cells);
        for (g, weights) in block.weights.iter().enumerate() {
            add_products(&mut sums, load_pair(weights), cells, g);
        }
        let [a, b] = &block.scales;
        // SAFETY: sixteen 16-bit numbers are 32 bytes.
        let scales = unsafe { [_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast())] };
        scale_sums(&mut acc, &sums, scales, cells);
    }
    store(&acc, factor, out);
}

/// What takes back the bias, which every sum begins with.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn first_sums<const M: usize, const BIAS: u8>(cells: &[Cell; M]) -> Both<__m256i, M> {
    let mut sums = [[_mm256_setzero_si256(); 2]; M];
    for t in 0..M {
        let back = &cells[t].back[usize::from(BIAS != 12)];
        sums[t] = [broadcast(std::ptr::from_ref(back).cast()); 2];
    }
    sums
}

/// Adds the products of group `g` of four places.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_products<const M: usize>(sums: &mut Both<__m256i, M>, weights: [__m256i; 2], cells: &[Cell; M], g: usize) {
    for t in 0..M {
        let q = broadcast(cells[t].q[4 * g..4 * g + 4].as_ptr().cast());
        for half in 0..2 {
            // Two products are at most 2 * 63 * 127.
            sums[t][half] = _mm256_add_epi16(sums[t][half], _mm256_maddubs_epi16(weights[half], q));
        }
    }
    pin(sums);
}

/// Keeps the order of groups as it is written: else the compiler holds all weights of a cell at once, and spills.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn pin<const M: usize>(values: &mut Both<__m256i, M>) {
    for value in values.as_flattened_mut() {
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {} */", inout(ymm_reg) * value, options(pure, nomem, nostack, preserves_flags));
        }
    }
}

/// `acc += float(sum of halves, each times its scale) * act_scale`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scale_sums<const M: usize>(
    acc: &mut Both<__m256, M>,
    sums: &Both<__m256i, M>,
    scales: [__m256i; 2],
    cells: &[Cell; M],
) {
    for t in 0..M {
        let by = _mm256_broadcast_ss(&cells[t].scale);
        for half in 0..2 {
            let sum = _mm256_cvtepi32_ps(_mm256_madd_epi16(sums[t][half], scales[half]));
            acc[t][half] = _mm256_fmadd_ps(sum, by, acc[t][half]);
        }
    }
}

/// Biased weights of a line's low and of its high nibbles.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn decode(line: &[u8; 64]) -> [[__m256i; 2]; 2] {
    // SAFETY: a plain load from an array.
    let table = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(BIASED.as_ptr().cast())) };
    let mask = _mm256_set1_epi8(15);
    let [a, b] = load_pair(line);
    let low = |v| _mm256_shuffle_epi8(table, _mm256_and_si256(v, mask));
    let high = |v| _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(v), mask));
    [[low(a), low(b)], [high(a), high(b)]]
}

/// Integer scales of eight rows and of the other eight, two a row: `mantissa << shift`, as a product with a power of two.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn decode_scales(scales: &Scales) -> [__m256i; 2] {
    // A table of powers below 2^8: the low byte looks up its shift, the high byte 8 less, and both find 0 outside.
    // SAFETY: plain loads from arrays; 16 bytes at 0 and 16 of 32.
    let (powers, halves) = unsafe {
        let powers = _mm256_broadcastsi128_si256(_mm_loadu_si128(SHIFTS.as_ptr().cast()));
        let half = |at: usize| _mm256_cvtepu8_epi16(_mm_loadu_si128(scales.as_ptr().add(at).cast()));
        (powers, [half(0), half(16)])
    };
    let scale = |v: __m256i| {
        let shift = _mm256_srli_epi16::<4>(v);
        let index = _mm256_or_si256(shift, _mm256_slli_epi16::<8>(shift));
        let power = _mm256_shuffle_epi8(powers, _mm256_sub_epi8(index, _mm256_set1_epi16(8 << 8)));
        _mm256_mullo_epi16(_mm256_and_si256(v, _mm256_set1_epi16(15)), power)
    };
    [scale(halves[0]), scale(halves[1])]
}

/// Four bytes from memory to all lanes: a load, no shuffle.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn broadcast(four: *const f32) -> __m256i {
    // SAFETY: the callers' pointers are to four bytes of a cell, aligned to four; any bits are a float.
    _mm256_castps_si256(_mm256_broadcast_ss(unsafe { &*four }))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn load_pair(from: &[u8; 64]) -> [__m256i; 2] {
    // SAFETY: 32 bytes at 0 and 32 of 64.
    unsafe { [_mm256_loadu_si256(from.as_ptr().cast()), _mm256_loadu_si256(from.as_ptr().add(32).cast())] }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn store_pair(to: &mut [u8; 64], pair: [__m256i; 2]) {
    for (to, v) in to.as_chunks_mut::<32>().0.iter_mut().zip(pair) {
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) };
    }
}

/// Results, times `factor`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn store<const M: usize>(acc: &Both<__m256, M>, factor: f32, out: &mut [Column]) {
    for (column, acc) in out.iter_mut().zip(acc) {
        for (half, v) in acc.iter().enumerate() {
            let v = _mm256_mul_ps(*v, _mm256_set1_ps(factor));
            // SAFETY: eight floats at 0 or 8 of 16.
            unsafe { _mm256_storeu_ps(column.as_mut_ptr().add(half * 8), v) };
        }
    }
}
