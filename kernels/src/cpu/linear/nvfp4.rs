//! NVFP4 weights against int8 cells: integers up to a cell's result, so every instruction set gives the same bits.
//!
//! `y[r] = (sum_c float(sum_h dot[h] * scale[r, h]) * act_scale[c]) * global`: cells ascending, one fused multiply-add a cell;
//! `dot[h]` is the dot product of twice the E2M1 numbers with the quantized activations in a half `h` of the cell, and `scale[r, h]`
//! an integer: see [`super::scales`]. A dot product is at most 16 * 12 * 127, so it fits in 16 bits, and the sum in 32.
//!
//! A tile is 16 rows; a cell of it 256 bytes. [`Order::Halves`]: in line `p` (64 bytes) the four bytes of row `r` hold the columns of the
//! places `4p + t` of a cell in the low nibbles and of `16 + 4p + t` in the high ones. [`Order::Quads`]: in line `p` eight bytes hold
//! the columns of places `8p + t` for two rows, that in the high nibbles two behind the other: the rows of low nibbles are 0, 1,
//! 4, 5, 8, 9, 12 and 13. The 32 block scales lie apart.

use super::pack::{Packer, by_tile};
use super::scales::{self, integer};
use super::{Column, ROWS};
use crate::cpu::cells::{CELL, Cell, HALF, Order, TILE, cells_of};
use crate::cpu::isa::{Isa, Level};
use crate::cpu::memory::Lines;
use crate::cpu::shared::Split;
#[cfg(target_arch = "x86_64")]
use crate::cpu::x86;

/// Twice the E2M1 numbers, plus 12 to make them unsigned.
const BIASED: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];
/// Cache lines of a tile's cell.
const CELL_LINES: usize = 4;

/// Scales of a cell of a tile, two a row.
pub(crate) type Scales = [u8; 2 * ROWS];

/// Packed codes and scales.
#[derive(Debug)]
pub(crate) struct Nvfp4Tiles {
    cells: usize,
    codes: Lines,
    scales: Lines,
    /// Tensor scale times the unit of the block scales, halved for the doubled codes.
    global: f32,
}

/// One tile's bytes, cell by cell.
#[derive(Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) codes: &'a [[[u8; 64]; CELL_LINES]],
    pub(crate) scales: &'a [Scales],
    pub(crate) global: f32,
    /// Tiles of the matrix from here to the one that comes next, if there is one.
    pub(crate) ahead: usize,
}

/// A tile of a matrix.
pub(crate) type TileOf<'a> = (&'a Nvfp4Tiles, usize);

impl Nvfp4Tiles {
    /// Repacks row-major codes and scales; missing rows of the last tile are zero, and so is a missing half of the last cell.
    pub(crate) fn pack(
        packer: &mut Packer<'_>,
        (rows, cols): (usize, usize),
        codes: &[u8],
        block_scales: &[u8],
        global: f32,
    ) -> Self {
        let (cells, blocks, order) = (cells_of(cols), cols / HALF, Order::of(packer.isa));
        let tiles = rows.div_ceil(ROWS);
        let (unit, spread) = (scales::Unit::of(block_scales), Spread::of(order));
        let scale_codes: [u8; 256] = std::array::from_fn(|code| unit.code(code as u8));
        let mut packed = packer.arena.zeros(tiles * cells * CELL_LINES * 64);
        let mut scales = packer.arena.zeros(tiles * cells * size_of::<Scales>());
        let all_scales = Split::new(scales.elements_mut::<Scales>());
        by_tile(packer.threads, packed.lines_mut(), cells * CELL_LINES, &|tile, lines| {
            // SAFETY: each tile is handed out once.
            let scales = unsafe { all_scales.part(tile * cells, cells) };
            for r in 0..ROWS.min(rows - tile * ROWS) {
                let row = tile * ROWS + r;
                let bytes = &codes[row * cols / 2..][..cols / 2];
                for (cell, lines) in bytes.chunks(CELL / 2).zip(lines.as_chunks_mut::<CELL_LINES>().0) {
                    spread.row(cell, r, lines);
                }
                for (b, &code) in block_scales[row * blocks..][..blocks].iter().enumerate() {
                    scales[b / 2][2 * r + b % 2] = scale_codes[usize::from(code)];
                }
            }
        });
        Self { cells, codes: packed, scales, global: global * unit.size() * 0.5 }
    }

    fn tile(&self, tile: usize, ahead: usize) -> Tile<'_> {
        let codes = &self.codes.lines().as_chunks().0[tile * self.cells..][..self.cells];
        Tile { codes, scales: &self.scales.elements()[tile * self.cells..][..self.cells], global: self.global, ahead }
    }

    /// Multiplies one row tile with a batch: `cells` are those of `out.len()` tokens.
    pub(crate) fn multiply(
        &self,
        isa: Isa,
        tile: usize,
        cells: &[Cell],
        panel: &mut Vec<PanelCell>,
        out: &mut [Column],
    ) {
        let t = self.tile(tile, 1);
        assert!(cells.len() == self.cells * out.len(), "cells do not match the matrix");
        // With several token tiles it pays to decode the weights once.
        let many = out.len() > TILE;
        if many && isa.0 != Level::Portable {
            panel.resize(self.cells, PanelCell::ZERO);
        }
        match isa.0 {
            Level::Portable => portable(t, cells, out),
            // SAFETY: an `Isa` of this level exists only where the processor has these features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 if many => unsafe { x86::avx2::nvfp4_panel(t, panel, cells, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::avx2::nvfp4(t, cells, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if many => unsafe { x86::avx512::nvfp4_panel([t], panel, cells, [out]) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { x86::avx512::nvfp4(t, cells, out) },
        }
    }

    /// Multiplies two tiles, of one matrix or of two that are as wide: where there are registers, they share loads.
    pub(crate) fn multiply_two(
        isa: Isa,
        [a, b]: [TileOf<'_>; 2],
        cells: &[Cell],
        panel: &mut Vec<PanelCell>,
        [to_a, to_b]: [&mut [Column]; 2],
    ) {
        match isa.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if to_a.len() > TILE => {
                assert!(a.0.cells == b.0.cells && to_a.len() == to_b.len(), "two tiles of unequal size");
                assert!(cells.len() == a.0.cells * to_a.len(), "cells do not match the matrix");
                let ahead = if std::ptr::eq(a.0, b.0) { 2 } else { 1 };
                let tiles = [a, b].map(|(matrix, tile)| matrix.tile(tile, ahead));
                panel.resize(2 * a.0.cells, PanelCell::ZERO);
                // SAFETY: an `Isa` of this level exists only where the processor has these features.
                unsafe { x86::avx512::nvfp4_panel(tiles, panel, cells, [to_a, to_b]) };
            }
            _ => {
                a.0.multiply(isa, a.1, cells, panel, to_a);
                b.0.multiply(isa, b.1, cells, panel, to_b);
            }
        }
    }
}

/// A cell of a tile, decoded: biased weights in the order of the tile, and scales.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct PanelCell {
    pub(crate) weights: [[u8; 64]; 8],
    pub(crate) scales: [[i16; ROWS]; 2],
}

impl PanelCell {
    pub(super) const ZERO: Self = Self { weights: [[0; 64]; 8], scales: [[0; ROWS]; 2] };
}

/// Where the codes of a row's cell go.
enum Spread {
    /// For each two bytes of a row in a tile's cell, the byte of the checkpoint that has their low nibbles, and that with the high ones.
    Halves([[usize; 2]; 8]),
    Quads,
}

impl Spread {
    fn of(order: Order) -> Self {
        match order {
            // Two neighbours in a cell are neighbours in the checkpoint's byte.
            Order::Halves => {
                Self::Halves(std::array::from_fn(|i| [order.column(2 * i) / 2, order.column(16 + 2 * i) / 2]))
            }
            Order::Quads => Self::Quads,
        }
    }

    /// Spreads up to 32 codes of row `r`, two a byte, over a cell's lines, which are zero there.
    fn row(&self, cell: &[u8], r: usize, lines: &mut [[u8; 64]; CELL_LINES]) {
        let mut bytes = [0u8; CELL / 2];
        bytes[..cell.len()].copy_from_slice(cell);
        match self {
            Self::Halves(sources) => {
                for (i, &[low, high]) in sources.iter().enumerate() {
                    let (low, high) = (bytes[low & 15], bytes[high & 15]);
                    let to = &mut lines[i / 2][4 * r + i % 2 * 2..][..2];
                    to[0] = (low & 15) | high << 4;
                    to[1] = low >> 4 | (high & 0xf0);
                }
            }
            Self::Quads => {
                let (lane, shift) = (r / 4 * 2 + r % 2, r / 2 % 2 * 4);
                let (halves, _) = bytes.as_chunks::<2>();
                for (p, line) in lines.iter_mut().enumerate() {
                    let to = &mut line.as_chunks_mut::<8>().0[lane];
                    let codes = [halves[p], halves[p + 4]].map(|pair| nibbles(u16::from_le_bytes(pair)));
                    let codes = u64::from(codes[0]) | u64::from(codes[1]) << 32;
                    *to = (u64::from_le_bytes(*to) | codes << shift).to_le_bytes();
                }
            }
        }
    }
}

/// Four codes, a byte each.
fn nibbles(codes: u16) -> u32 {
    let bytes = (u32::from(codes) | u32::from(codes) << 8) & 0x00ff_00ff;
    (bytes | bytes << 4) & 0x0f0f_0f0f
}

/// The specification of the integer kernels, on [`Order::Halves`].
fn portable(tile: Tile<'_>, cells: &[Cell], out: &mut [Column]) {
    let count = tile.scales.len();
    for (cells, out) in cells.chunks(count * TILE).zip(out.chunks_mut(TILE)) {
        let tokens = out.len();
        for (token, column) in out.iter_mut().enumerate() {
            for (r, y) in column.iter_mut().enumerate() {
                let mut acc = 0f32;
                for (c, scales) in tile.scales.iter().enumerate() {
                    let cell = &cells[c * tokens + token];
                    let mut dot = [0i32; 2];
                    for (place, &q) in cell.q.iter().enumerate() {
                        let byte = tile.codes[c][place % 16 / 4][r * 4 + place % 4];
                        let code = if place < 16 { byte & 15 } else { byte >> 4 };
                        dot[Order::Halves.column(place) / HALF] +=
                            (i32::from(BIASED[code as usize]) - 12) * i32::from(q);
                    }
                    let sum = dot[0] * integer(scales[2 * r]) + dot[1] * integer(scales[2 * r + 1]);
                    acc = (sum as f32).mul_add(cell.scale, acc);
                }
                *y = acc * tile.global;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::cells::{CellRow, fill};
    use crate::cpu::memory::Arena;
    use crate::cpu::threads::Threads;
    use crate::fp8::e4m3_to_f32;
    use crate::nvfp4::E2M1;

    /// Bytes that look random; `extreme` ones are the largest magnitudes.
    fn bytes(n: usize, seed: u64, extreme: bool) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        (0..n).map(|_| if extreme { 0x77 | (next() & 0x88) } else { next() }).collect()
    }

    /// Results of every row and token with an instruction set.
    fn product(isa: Isa, (rows, cols): (usize, usize), codes: &[u8], scales: &[u8], x: &[f32]) -> Vec<Vec<u32>> {
        let (threads, arena) = (&mut Threads::new(1).unwrap(), &mut Arena::default());
        let w = Nvfp4Tiles::pack(&mut Packer { threads, arena, isa }, (rows, cols), codes, scales, 0.01);
        let (n, count) = (x.len() / cols, cells_of(cols));
        let mut cells = vec![Cell::default(); n * count];
        let all = Split::new(&mut cells);
        for (row, x) in x.chunks_exact(cols).enumerate() {
            // SAFETY: there is one thread.
            unsafe { fill(isa, x, 0, CellRow { cells: &all, order: Order::of(isa), rows: n, count, row }) };
        }
        let mut out = vec![Vec::new(); n];
        for tile in 0..rows.div_ceil(ROWS) {
            let [mut columns, mut alone, mut other] = [[f32::NAN; ROWS]; 3].map(|column| vec![column; n]);
            w.multiply(isa, tile, &cells, &mut Vec::new(), &mut alone);
            let both = [(&w, tile), (&w, rows.div_ceil(ROWS) - 1 - tile)];
            Nvfp4Tiles::multiply_two(isa, both, &cells, &mut Vec::new(), [&mut columns, &mut other]);
            assert!(columns == alone, "{isa:?}: tile {tile} in a pair differs");
            let width = ROWS.min(rows - tile * ROWS);
            out.iter_mut().zip(columns).for_each(|(o, c)| o.extend(c[..width].iter().map(|v| v.to_bits())));
        }
        out
    }

    #[test]
    fn all_instruction_sets_agree_and_are_right_at_any_shape_and_at_the_limits() {
        for (seed, (rows, cols)) in [(16, 16), (20, 48), (33, 96), (16, 1536)].into_iter().enumerate() {
            for extreme in [false, true] {
                let codes = bytes(rows * cols / 2, seed as u64, extreme);
                let random = bytes(rows * cols / 16, 7, false);
                let scales: Vec<u8> = random.iter().map(|b| if extreme { 0x7e } else { b % 0x7f }).collect();
                let steps = bytes(9 * cols, 3, false);
                let x: Vec<f32> = steps.iter().map(|b| if extreme { 5.0 } else { f32::from(*b) - 128.0 }).collect();
                let size = (rows, cols);
                let expected = product(Isa::available()[0], size, &codes, &scales, &x);
                for isa in Isa::available() {
                    for n in [1, 2, 3, 4, 5, 9] {
                        let found = product(isa, size, &codes, &scales, &x[..n * cols]);
                        assert!(found == expected[..n], "{isa:?}, {size:?}, {n} tokens");
                    }
                }
                for (row, found) in expected[0].iter().enumerate() {
                    let weight = |k: usize| {
                        let code = codes[(row * cols + k) / 2] >> (k % 2 * 4) & 15;
                        f64::from(E2M1[code as usize]) * f64::from(e4m3_to_f32(scales[(row * cols + k) / 16]))
                    };
                    let products = (0..cols).map(|k| weight(k) * f64::from(x[k]) * 0.01);
                    let (exact, most) = products.fold((0.0, 0.0), |(sum, most), p: f64| (sum + p, most + p.abs()));
                    // Half a unit of a scale that is rounded, times the largest number.
                    let units: f64 = x[..cols].iter().map(|x| f64::from(x.abs()) * 6.0 / 128.0 * 0.01).sum();
                    let error = (f64::from(f32::from_bits(*found)) - exact).abs();
                    assert!(error <= most * 0.01 + units, "row {row}: {error} of {exact}");
                }
            }
        }
    }
}
