//! The output head in fast mode: int8 weights with a half-precision scale for each 32 columns, quantized at load.
//!
//! The checkpoint keeps the head in BF16; half the bytes of a decode step would be the head's. This is our choice, and
//! costs no measurable quality. `y[r] = sum_c float(dot_c) * (scale[r, c] * act_scale[c])`, cells of 32 columns ascending.
//!
//! A tile is 16 rows; a cell of it 512 bytes: group `g` of four places of a cell, row `r`, four columns.
//!
//! Where only the largest result is asked for, most rows need no more than a look at their upper six bits: see [`super::largest`].

use half::f16;

use super::nvfp4::PanelCell;
use super::pack::{Packer, by_tile};
use super::{Column, ROWS, floats_at};
use crate::cpu::cells::{CELL, Cell, HALF, Order, TILE};
use crate::cpu::isa::{Isa, Level, versions};
use crate::cpu::memory::Lines;
use crate::cpu::shared::Split;
#[cfg(target_arch = "x86_64")]
use crate::cpu::x86;
use crate::tensor::Matrix;

/// Columns that share a scale.
pub(crate) const GROUP: usize = CELL;
/// Magnitudes of the weights in half a cell, before each is rounded. Upper bits are a quarter, and half more at most: so
/// `(992 + 16 / 2 + 16 * 2) / 4 * 127` is below `2^15`.
const MOST_IN_HALF: f32 = 992.0;
/// Units in the largest scale of a tile: two sums of 16 bits, times this, are below `2^31`.
const UNITS: f32 = 16383.0;
/// Cache lines of a tile's cell.
const CELL_LINES: usize = ROWS * CELL / 64;

/// Packed weights and scales.
#[derive(Debug)]
pub(crate) struct Int8Tiles {
    cells: usize,
    weights: Lines,
    scales: Lines,
    looks: Vec<Looks>,
}

/// One tile's bytes, cell by cell.
#[derive(Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) weights: &'a [[[u8; 64]; CELL_LINES]],
    pub(crate) scales: &'a [[f16; ROWS]],
}

/// What is to be known of a tile where only the upper six bits of its weights are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// The scales of upper bits are multiples of this.
    pub(crate) unit: f32,
    /// Of each row, how far a result is at most from that of whole weights, for a batch row of length one.
    pub(crate) missed: Column,
}

impl Int8Tiles {
    /// Quantizes a float matrix whose columns are a multiple of 32: `q = round(w / scale)` with the least scale in half precision
    /// with which no `q` is above 127, and the magnitudes of either half are [`MOST_IN_HALF`] together: then the sums
    /// of products with upper bits fit in 16 bits.
    pub(crate) fn quantize(packer: &mut Packer<'_>, m: &Matrix) -> Self {
        let (cells, isa, order) = (m.cols / GROUP, packer.isa, Order::of(packer.isa));
        let tiles = m.rows.div_ceil(ROWS);
        let mut weights = packer.arena.zeros(tiles * cells * ROWS * CELL);
        let mut scales = packer.arena.zeros(tiles * cells * size_of::<[f16; ROWS]>());
        let mut looks = vec![Looks { unit: 1.0, missed: [0.0; ROWS] }; tiles];
        let all_scales = Split::new(scales.elements_mut::<[f16; ROWS]>());
        let all_looks = Split::new(&mut looks);
        by_tile(packer.threads, weights.lines_mut(), cells * CELL_LINES, &|tile, lines| {
            // SAFETY: each tile is handed out once.
            let (scales, looks) = unsafe { (all_scales.part(tile * cells, cells), &mut all_looks.part(tile, 1)[0]) };
            let mut squares = [[0.0; 3]; ROWS];
            let mut group = [0f32; GROUP];
            for r in 0..ROWS.min(m.rows - tile * ROWS) {
                let row = (tile * ROWS + r) * m.cols;
                for (g, (lines, scales)) in lines.chunks_exact_mut(CELL_LINES).zip(scales.iter_mut()).enumerate() {
                    floats_at(&m.values, row + g * GROUP, &mut group);
                    let (scale, q) = quantize_group(isa, &group);
                    scales[r] = scale;
                    let [missed, upper, all] = squares_of(isa, &q).map(f64::from);
                    let area = f64::from(scale.to_f32()).powi(2);
                    for (sum, square) in squares[r].iter_mut().zip([area * missed, upper, area * all]) {
                        *sum += square;
                    }
                    for (line, four) in lines.iter_mut().zip(in_places(order, &q).as_chunks::<4>().0) {
                        line.as_chunks_mut().0[r] = *four;
                    }
                }
            }
            *looks = Looks::of(scales, &squares);
        });
        Self { cells, weights, scales, looks }
    }

    /// Whether [`Self::multiply_narrow`] pays for a batch of `rows`.
    pub(crate) fn narrows(&self, isa: Isa, rows: usize) -> bool {
        match isa.0 {
            // The upper bits are taken once for all token tiles.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => rows > TILE,
            // Products of whole weights cost VNNI no more.
            _ => false,
        }
    }

    /// See [`Looks::missed`].
    pub(crate) fn missed(&self, tile: usize) -> &Column {
        &self.looks[tile].missed
    }

    /// As [`Self::multiply`], with the upper six bits of the weights alone: `y` is at most [`Self::missed`] times the length of the
    /// batch row off.
    pub(crate) fn multiply_narrow(
        &self,
        isa: Isa,
        tile: usize,
        cells: &[Cell],
        panel: &mut Vec<PanelCell>,
        out: &mut [Column],
    ) {
        match isa.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                assert!(cells.len() == self.cells * out.len(), "cells do not match the matrix");
                panel.resize(self.cells, PanelCell::ZERO);
                // SAFETY: an `Isa` of this level exists only where the processor has these features.
                unsafe { x86::avx2_narrow(self.tile(tile), &self.looks[tile], panel, cells, out) }
            }
            _ => self.multiply(isa, tile, cells, out),
        }
    }

    fn tile(&self, tile: usize) -> Tile<'_> {
        let weights = &self.weights.lines().as_chunks().0[tile * self.cells..][..self.cells];
        Tile { weights, scales: &self.scales.elements()[tile * self.cells..][..self.cells] }
    }

    /// Multiplies one row tile with a batch: `cells` are those of `out.len()` tokens.
    pub(crate) fn multiply(&self, isa: Isa, tile: usize, cells: &[Cell], out: &mut [Column]) {
        assert!(cells.len() == self.cells * out.len(), "cells do not match the matrix");
        let tile = self.tile(tile);
        match isa.0 {
            Level::Portable => portable(tile, cells, out),
            // SAFETY: an `Isa` of this level exists only where the processor has these features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::avx2_int8(tile, cells, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { x86::avx512_int8([tile], cells, [out]) },
        }
    }

    /// Multiplies two tiles: where there are registers, they share loads.
    pub(crate) fn multiply_two(&self, isa: Isa, [a, b]: [usize; 2], cells: &[Cell], [to_a, to_b]: [&mut [Column]; 2]) {
        match isa.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                assert!(to_a.len() == to_b.len(), "two tiles of unequal size");
                assert!(cells.len() == self.cells * to_a.len(), "cells do not match the matrix");
                // SAFETY: an `Isa` of this level exists only where the processor has these features.
                unsafe { x86::avx512_int8([self.tile(a), self.tile(b)], cells, [to_a, to_b]) };
            }
            _ => {
                self.multiply(isa, a, cells, to_a);
                self.multiply(isa, b, cells, to_b);
            }
        }
    }
}

/// Weights of a row in the places of a cell. VNNI multiplies unsigned bytes: adding 128 flips the top bit.
fn in_places(order: Order, q: &[u8; GROUP]) -> [u8; CELL] {
    // Orders are told apart outside the loops, whose shuffles are then known to the compiler.
    match order {
        Order::Quads => std::array::from_fn(|place| q[Order::Quads.column(place)] ^ 0x80),
        Order::Halves => std::array::from_fn(|place| q[Order::Halves.column(place)]),
    }
}

#[inline(always)]
fn quantize_group_body(group: &[f32; GROUP]) -> (f16, [u8; GROUP]) {
    let (mut amax, mut halves) = (0f32, [0f32; 2]);
    for (half, values) in group.as_chunks::<HALF>().0.iter().enumerate() {
        for v in values {
            amax = if v.abs() > amax { v.abs() } else { amax };
            halves[half] += v.abs();
        }
    }
    let sum = if halves[0] > halves[1] { halves[0] } else { halves[1] };
    let least = if sum / MOST_IN_HALF > amax / 127.0 { sum / MOST_IN_HALF } else { amax / 127.0 };
    let nearest = f16::from_f32(least);
    let scale = if nearest.to_f32() < least { f16::from_bits(nearest.to_bits() + 1) } else { nearest };
    let inverse = if scale > f16::ZERO { 1.0 / scale.to_f32() } else { 0.0 };
    let mut out = [0u8; GROUP];
    for (q, v) in out.iter_mut().zip(group) {
        // Adding 1.5 * 2^23 rounds to an integer. The inverse's rounding may take the largest past 127.
        let v = (v * inverse).clamp(-127.0, 127.0);
        *q = (v + 12_582_912.0).to_bits() as u8;
    }
    (scale, out)
}

/// Sums of squares: of what upper bits miss of the weights, of the upper bits, and of the weights.
#[inline(always)]
fn squares_body(q: &[u8; GROUP]) -> [i32; 3] {
    let (mut missed, mut upper, mut all) = (0, 0, 0);
    for &q in q {
        let w = i32::from(q as i8);
        let most = if w + 130 > 255 { 255 } else { w + 130 };
        let up = (most >> 2) - 32;
        let rest = w - 4 * up;
        missed += rest * rest;
        upper += up * up;
        all += w * w;
    }
    [missed, upper, all]
}

versions! {
    fn quantize_group = quantize_group_body(group: &[f32; GROUP]) -> (f16, [u8; GROUP])
}
versions! {
    fn squares_of = squares_body(q: &[u8; GROUP]) -> [i32; 3]
}

impl Looks {
    /// Of a tile's scales and its rows' sums of squares. What is missed has two parts, whose lengths bound what it makes of a batch row
    /// (Cauchy and Schwarz): lower bits, and half a unit of each scale. To it comes what both chains of roundings may add: each rounds
    /// a few times a cell, by `2^-24` of at most the row's length.
    fn of(scales: &[[f16; ROWS]], squares: &[[f64; 3]; ROWS]) -> Self {
        let largest = scales.as_flattened().iter().map(|scale| scale.to_f32()).fold(0.0, f32::max);
        let unit = if largest > 0.0 { largest * 4.0 / UNITS } else { 1.0 };
        let roundings = (scales.len() + 8) as f64 * 2f64.powi(-21);
        let missed = squares.map(|[missed, upper, all]| {
            let length = missed.sqrt() + upper.sqrt() * f64::from(unit) * 0.51 + all.sqrt() * roundings;
            (length * 1.000_001) as f32
        });
        Self { unit, missed }
    }
}

/// The specification of the integer kernels.
fn portable(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    for (cells, out) in cells.chunks(tile.scales.len() * TILE).zip(out.chunks_mut(TILE)) {
        let tokens = out.len();
        for (token, column) in out.iter_mut().enumerate() {
            for (r, y) in column.iter_mut().enumerate() {
                let mut acc = 0f32;
                for (c, scales) in tile.scales.iter().enumerate() {
                    let cell = &cells[c * tokens + token];
                    let mut dot = 0i32;
                    for (place, &q) in cell.q.iter().enumerate() {
                        let w = tile.weights[c][place / 4][r * 4 + place % 4] as i8;
                        dot += i32::from(w) * i32::from(q);
                    }
                    acc = (dot as f32).mul_add(scales[r].to_f32() * cell.scale, acc);
                }
                *y = acc;
            }
        }
    }
}
