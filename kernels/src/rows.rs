//! Rows of compressed sparse attention: their number formats in a pool, and the roundings of DeepSeek's reference.
//!
//! A format's scales are powers of two where DeepSeek's are, so rounding a row (what [`Rounding`] does) and storing it (what
//! [`RowStore`] does) agree: a rounded row is stored without further loss.

use crate::cpu::element::{Bf16, Element, F16};
use crate::fp8::{E4M3_MAX, e4m3_to_f32, e8m0_to_f32, f32_to_e4m3, power_of_two_scale};
use crate::nvfp4::{E2M1, E2M1_MAX, f32_to_e2m1};
use crate::ops::KvStore;

/// Numbers of a key-value row that share a scale.
pub const FP8_GROUP: usize = 64;
/// Numbers of an FP4 row that share a scale.
pub const FP4_GROUP: usize = 32;
/// Numbers of an activation row that share a scale in front of FP8 and FP4 weights.
pub const ACTIVATION_GROUP: usize = 128;

/// Below it an FP8 group's largest magnitude counts as this.
const FP8_FLOOR: f32 = 1e-4;
/// The same for FP4.
const FP4_FLOOR: f32 = 6.0 * f32::MIN_POSITIVE;

/// How the rows of a pool are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowStore {
    /// Every number alike.
    Plain(KvStore),
    /// Key-value rows as FlashMLA keeps DeepSeek-V4's: E4M3 with an E8M0 scale for each 64 numbers, except for the last `tail`
    /// numbers (the rotated ones), which are BF16. Codes, tail, scales, padded to 8 bytes.
    Fp8 {
        /// Numbers at the end that stay BF16.
        tail: usize,
    },
    /// Index keys: E4M3, then one F32 scale for the row.
    Fp8Row,
    /// Index keys: E2M1, two to a byte, then an E8M0 scale for each 32 numbers.
    Fp4,
}

fn amax(values: &[f32]) -> f32 {
    values.iter().fold(0f32, |m, x| m.max(x.abs()))
}

fn fp8_scale(values: &[f32]) -> u8 {
    power_of_two_scale(amax(values).max(FP8_FLOOR), E4M3_MAX)
}

fn fp4_scale(values: &[f32]) -> u8 {
    power_of_two_scale(amax(values).max(FP4_FLOOR), E2M1_MAX)
}

impl RowStore {
    /// Bytes of a row of `width` numbers.
    #[must_use]
    pub fn row_bytes(self, width: usize) -> usize {
        match self {
            Self::Plain(store) => width * store.size(),
            Self::Fp8 { tail } => {
                let scaled = width - tail;
                (scaled + 2 * tail + scaled.div_ceil(FP8_GROUP)).next_multiple_of(8)
            }
            Self::Fp8Row => width + size_of::<f32>(),
            Self::Fp4 => width.div_ceil(2) + width.div_ceil(FP4_GROUP),
        }
    }

    /// Stores a row.
    ///
    /// # Panics
    /// If `bytes` is not [`Self::row_bytes`] long.
    pub fn write(self, row: &[f32], bytes: &mut [u8]) {
        assert!(bytes.len() == self.row_bytes(row.len()), "{self:?}: {} bytes for {}", bytes.len(), row.len());
        match self {
            Self::Plain(KvStore::F32) => pack(row, bytes, f32::to_le_bytes),
            Self::Plain(KvStore::F16) => pack(row, bytes, |v| F16::narrow(v).0.to_le_bytes()),
            Self::Plain(KvStore::Bf16) => pack(row, bytes, |v| Bf16::narrow(v).0.to_le_bytes()),
            Self::Fp8 { tail } => write_fp8(row, tail, bytes),
            Self::Fp8Row => {
                let (codes, scale) = bytes.split_at_mut(row.len());
                let factor = amax(row).max(FP8_FLOOR) / E4M3_MAX;
                codes.iter_mut().zip(row).for_each(|(c, v)| *c = f32_to_e4m3(v / factor));
                scale.copy_from_slice(&factor.to_le_bytes());
            }
            Self::Fp4 => write_fp4(row, bytes),
        }
    }

    /// Reads a row back, exactly as it is stored.
    #[inline(always)]
    pub fn read(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::Plain(KvStore::F32) => unpack(bytes, out, f32::from_le_bytes),
            Self::Plain(KvStore::F16) => unpack(bytes, out, |b| F16(u16::from_le_bytes(b)).widen()),
            Self::Plain(KvStore::Bf16) => unpack(bytes, out, |b| Bf16(u16::from_le_bytes(b)).widen()),
            Self::Fp8 { tail } => {
                let scaled = out.len() - tail;
                let (codes, rest) = bytes.split_at(scaled);
                let (ends, scales) = rest.split_at(2 * tail);
                let (head, end) = out.split_at_mut(scaled);
                unpack(ends, end, |b| Bf16(u16::from_le_bytes(b)).widen());
                let groups = head.chunks_mut(FP8_GROUP).zip(codes.chunks(FP8_GROUP)).zip(scales);
                for ((out, codes), &scale) in groups {
                    let scale = e8m0_to_f32(scale);
                    out.iter_mut().zip(codes).for_each(|(o, c)| *o = e4m3_to_f32(*c) * scale);
                }
            }
            Self::Fp8Row => {
                let (codes, scale) = bytes.split_at(out.len());
                let scale = scale.first_chunk().map_or(0.0, |b| f32::from_le_bytes(*b));
                out.iter_mut().zip(codes).for_each(|(o, c)| *o = e4m3_to_f32(*c) * scale);
            }
            Self::Fp4 => {
                let (codes, scales) = bytes.split_at(out.len().div_ceil(2));
                for (i, o) in out.iter_mut().enumerate() {
                    let code = (codes[i / 2] >> (i % 2 * 4)) & 15;
                    *o = E2M1[code as usize] * e8m0_to_f32(scales[i / FP4_GROUP]);
                }
            }
        }
    }

    /// Makes a row what storing and reading it would make of it.
    pub fn round(self, row: &mut [f32]) {
        if self == Self::Plain(KvStore::F32) {
            return;
        }
        let mut bytes = vec![0u8; self.row_bytes(row.len())];
        self.write(row, &mut bytes);
        self.read(&bytes, row);
    }
}

fn write_fp8(row: &[f32], tail: usize, bytes: &mut [u8]) {
    let (scaled, tail) = row.split_at(row.len() - tail);
    let (codes, rest) = bytes.split_at_mut(scaled.len());
    let (ends, scales) = rest.split_at_mut(2 * tail.len());
    pack(tail, ends, |v| Bf16::narrow(v).0.to_le_bytes());
    scales.fill(0);
    for ((values, codes), scale) in scaled.chunks(FP8_GROUP).zip(codes.chunks_mut(FP8_GROUP)).zip(scales) {
        *scale = fp8_scale(values);
        let factor = e8m0_to_f32(*scale);
        codes.iter_mut().zip(values).for_each(|(c, v)| *c = f32_to_e4m3(v / factor));
    }
}

fn write_fp4(row: &[f32], bytes: &mut [u8]) {
    let (codes, scales) = bytes.split_at_mut(row.len().div_ceil(2));
    for ((values, codes), scale) in row.chunks(FP4_GROUP).zip(codes.chunks_mut(FP4_GROUP / 2)).zip(scales) {
        *scale = fp4_scale(values);
        let factor = e8m0_to_f32(*scale);
        for (c, pair) in codes.iter_mut().zip(values.chunks(2)) {
            let code = |i: usize| pair.get(i).map_or(0, |v| f32_to_e2m1(v / factor));
            *c = code(0) | code(1) << 4;
        }
    }
}

#[inline(always)]
fn pack<const N: usize>(row: &[f32], bytes: &mut [u8], one: impl Fn(f32) -> [u8; N]) {
    for (b, v) in bytes.as_chunks_mut::<N>().0.iter_mut().zip(row) {
        *b = one(*v);
    }
}

#[inline(always)]
fn unpack<const N: usize>(bytes: &[u8], out: &mut [f32], one: impl Fn([u8; N]) -> f32) {
    for (o, b) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *o = one(*b);
    }
}

/// What DeepSeek's reference does to a row, because its kernels keep it in fewer bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Nothing.
    #[default]
    Exact,
    /// All but the last `tail` numbers to E4M3, 64 to a power-of-two scale.
    Fp8 {
        /// Numbers at the end that stay as they are.
        tail: usize,
    },
    /// The Hadamard transform, which spreads outliers and changes no scalar product of two transformed rows.
    Hadamard,
    /// The Hadamard transform, then E2M1, 32 to a power-of-two scale.
    HadamardFp4,
}

impl Rounding {
    /// Changes a row.
    ///
    /// # Panics
    /// If a row to be transformed has a width that is no power of two.
    pub fn apply(self, row: &mut [f32]) {
        match self {
            Self::Exact => {}
            Self::Fp8 { tail } => {
                let scaled = row.len() - tail;
                fp8_groups(&mut row[..scaled], FP8_GROUP);
            }
            Self::Hadamard => hadamard(row),
            Self::HadamardFp4 => {
                hadamard(row);
                RowStore::Fp4.round(row);
            }
        }
    }
}

/// Rounds each group of numbers to E4M3 with a power-of-two scale.
pub fn fp8_groups(row: &mut [f32], group: usize) {
    for values in row.chunks_mut(group) {
        let factor = e8m0_to_f32(fp8_scale(values));
        values.iter_mut().for_each(|v| *v = e4m3_to_f32(f32_to_e4m3(*v / factor)) * factor);
    }
}

/// The Walsh-Hadamard transform in its natural order, divided by the square root of the width; its own inverse.
fn hadamard(row: &mut [f32]) {
    let n = row.len();
    assert!(n.is_power_of_two(), "a Hadamard transform of {n} numbers");
    let mut half = 1;
    while half < n {
        for pair in row.chunks_exact_mut(2 * half) {
            let (a, b) = pair.split_at_mut(half);
            for (x, y) in a.iter_mut().zip(b) {
                (*x, *y) = (*x + *y, *x - *y);
            }
        }
        half *= 2;
    }
    let factor = 1.0 / (n as f32).sqrt();
    row.iter_mut().for_each(|v| *v *= factor);
}
