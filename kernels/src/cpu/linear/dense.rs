//! Weights against f32 activations: `y[r] = sum_k w[r, k] * x[k]`, columns ascending, one fused multiply-add each.
//!
//! A tile is 16 rows, column by column. BF16, F16 and F32 are multiplied from the tile; NVFP4 and FP8 tiles are decoded
//! to a panel of f32 first, one tile at a time.

use super::pack::transposed;
use super::{Column, ROWS};
use crate::cpu::element::{Bf16, Element, F16};
use crate::cpu::isa::{Isa, versions};
use crate::cpu::threads::Threads;
use crate::nvfp4::E2M1;
use crate::tensor::{Matrix, Values};
use crate::{fp8, nvfp4};

/// Tokens that share a pass over a tile.
const TOKENS: usize = 4;

/// A matrix in tiles of its own number format.
#[derive(Debug)]
pub(crate) struct DenseTiles {
    cols: usize,
    store: Store,
}

#[derive(Debug)]
enum Store {
    F32(Vec<[f32; ROWS]>),
    F16(Vec<[F16; ROWS]>),
    Bf16(Vec<[Bf16; ROWS]>),
    /// Column pairs: low nibble the even one; scales `[tile][block][row]`.
    Nvfp4 {
        codes: Vec<[u8; ROWS]>,
        scales: Vec<[u8; ROWS]>,
        global: f32,
    },
    /// Codes `[tile][column][row]`; scales as the checkpoint has them.
    Fp8 {
        codes: Vec<[u8; ROWS]>,
        scales: Vec<u8>,
        rows: usize,
    },
}

impl DenseTiles {
    pub(crate) fn pack(threads: &mut Threads, m: &Matrix) -> Self {
        let (cols, size) = (m.cols, (m.rows, m.cols));
        let half = |b: &[u8], i: usize| u16::from_le_bytes([b[2 * i], b[2 * i + 1]]);
        let single = |b: &[u8], i: usize| f32::from_le_bytes([b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]]);
        let store = match &m.values {
            Values::F32(b) => Store::F32(transposed(threads, size, 0.0, |r, k| single(b, r * cols + k))),
            Values::F16(b) => Store::F16(transposed(threads, size, F16(0), |r, k| F16(half(b, r * cols + k)))),
            Values::Bf16(b) => Store::Bf16(transposed(threads, size, Bf16(0), |r, k| Bf16(half(b, r * cols + k)))),
            Values::Nvfp4 { codes, scales, global } => {
                let (pairs, blocks) = (cols / 2, cols / nvfp4::BLOCK);
                Store::Nvfp4 {
                    codes: transposed(threads, (m.rows, pairs), 0, |r, k| codes[r * pairs + k]),
                    scales: transposed(threads, (m.rows, blocks), 0, |r, b| scales[r * blocks + b]),
                    global: *global,
                }
            }
            Values::Fp8Block128 { codes, scales } => {
                let codes = transposed(threads, size, 0, |r, k| codes[r * cols + k]);
                Store::Fp8 { codes, scales: scales.to_vec(), rows: m.rows }
            }
        };
        Self { cols, store }
    }

    /// Multiplies one tile with all rows of `x` (`cols` wide). `panel` is scratch.
    pub(crate) fn multiply(&self, isa: Isa, tile: usize, x: &[f32], panel: &mut Vec<Column>, out: &mut [Column]) {
        let span = tile * self.cols..(tile + 1) * self.cols;
        for (i, (x, out)) in x.chunks(self.cols * TOKENS).zip(out.chunks_mut(TOKENS)).enumerate() {
            match &self.store {
                Store::F32(w) => multiply(isa, &w[span.clone()], x, out),
                Store::F16(w) => multiply(isa, &w[span.clone()], x, out),
                Store::Bf16(w) => multiply(isa, &w[span.clone()], x, out),
                Store::Nvfp4 { .. } | Store::Fp8 { .. } => {
                    if i == 0 {
                        self.decode(tile, panel);
                    }
                    multiply(isa, panel, x, out);
                }
            }
        }
    }

    /// Decodes a tile exactly, as the checkpoint's format defines it.
    fn decode(&self, tile: usize, panel: &mut Vec<Column>) {
        panel.clear();
        match &self.store {
            Store::Nvfp4 { codes, scales, global } => {
                for k in 0..self.cols {
                    let codes = &codes[(tile * self.cols + k) / 2];
                    let scales = &scales[(tile * self.cols + k) / nvfp4::BLOCK];
                    panel.push(std::array::from_fn(|r| {
                        let code = (codes[r] >> (k % 2 * 4)) & 15;
                        (E2M1[code as usize] * fp8::e4m3_to_f32(scales[r])) * global
                    }));
                }
            }
            Store::Fp8 { codes, scales, rows } => {
                let across = self.cols.div_ceil(fp8::BLOCK);
                for k in 0..self.cols {
                    let codes = &codes[tile * self.cols + k];
                    panel.push(std::array::from_fn(|r| {
                        let row = (tile * ROWS + r).min(rows - 1);
                        fp8::e4m3_to_f32(codes[r])
                            * fp8::e8m0_to_f32(scales[row / fp8::BLOCK * across + k / fp8::BLOCK])
                    }));
                }
            }
            Store::F32(_) | Store::F16(_) | Store::Bf16(_) => {}
        }
    }
}

/// As many tokens as there are results, one to four, in one pass.
#[inline]
fn multiply<E: Element>(isa: Isa, w: &[[E; ROWS]], x: &[f32], out: &mut [Column]) {
    if let Some(out) = out.first_chunk_mut::<4>() {
        pass(isa, w, x, out);
    } else if let Some(out) = out.first_chunk_mut::<3>() {
        pass(isa, w, x, out);
    } else if let Some(out) = out.first_chunk_mut::<2>() {
        pass(isa, w, x, out);
    } else if let Some(out) = out.first_chunk_mut::<1>() {
        pass(isa, w, x, out);
    }
}

#[inline(always)]
fn pass_body<E: Element, const N: usize>(w: &[[E; ROWS]], x: &[f32], out: &mut [Column; N]) {
    let mut rows = [x; N];
    for t in 0..N {
        rows[t] = &x[t * w.len()..][..w.len()];
    }
    let mut acc = [[0f32; ROWS]; N];
    for (k, column) in w.iter().enumerate() {
        let mut wide = [0f32; ROWS];
        for r in 0..ROWS {
            wide[r] = column[r].widen();
        }
        for t in 0..N {
            let v = rows[t][k];
            for r in 0..ROWS {
                acc[t][r] = wide[r].mul_add(v, acc[t][r]);
            }
        }
    }
    *out = acc;
}

versions! {
    fn pass = pass_body [E: Element, const N: usize] (w: &[[E; ROWS]], x: &[f32], out: &mut [Column; N])
}
