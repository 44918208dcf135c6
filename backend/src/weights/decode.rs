//! A checkpoint's weight as the matrix that a device takes, without rounding anything.

use bytes::Bytes;
use half::bf16;
use sluicegate_kernels::fp8::{e4m3_to_f32, e8m0_to_f32};
use sluicegate_kernels::nvfp4::E2M1;
use sluicegate_kernels::tensor::{Matrix, Values};

use super::linear::MXFP4_GROUP;
use super::{Dtype, Linear, Tensor};

impl Tensor {
    /// A BF16, F16 or F32 tensor as a matrix that shares its bytes: `[rows, cols]`, a vector being one row.
    /// `None` for other dtypes.
    #[must_use]
    pub fn matrix(&self) -> Option<Matrix> {
        let cols = self.shape().last().copied()?;
        let rows = self.elements().checked_div(cols)?;
        let bytes = self.bytes().clone();
        let values = match self.dtype() {
            Dtype::Bf16 => Values::Bf16(bytes),
            Dtype::F16 => Values::F16(bytes),
            Dtype::F32 => Values::F32(bytes),
            _ => return None,
        };
        Some(Matrix { rows, cols, values })
    }
}

impl Linear {
    /// The weight for a device. Bytes are shared with the mapped file where the device knows the format; MXFP4 becomes
    /// NVFP4 with the same values (BF16 if the scales' range is too wide for that), and FP8 with scales other than
    /// E8M0 per 128 x 128 becomes F32.
    #[must_use]
    pub fn matrix(&self) -> Matrix {
        let (rows, cols) = self.shape();
        let values = match self {
            Self::Float(t) => t.matrix().map_or(Values::F32(Bytes::new()), |m| m.values),
            Self::Nvfp4 { packed, scales, scale_2, .. } => {
                Values::Nvfp4 { codes: packed.bytes().clone(), scales: scales.bytes().clone(), global: *scale_2 }
            }
            Self::Fp8Block { codes, scales, block: [128, 128] } if *scales.dtype() == Dtype::F8E8m0 => {
                Values::Fp8Block128 { codes: codes.bytes().clone(), scales: scales.bytes().clone() }
            }
            Self::Fp8Block { codes, scales, block } => Values::F32(expand_fp8(codes, scales, *block, cols)),
            Self::Mxfp4 { packed, scales, .. } => {
                mxfp4_as_nvfp4(packed, scales).unwrap_or_else(|| Values::Bf16(expand_mxfp4(packed, scales)))
            }
        };
        Matrix { rows, cols, values }
    }
}

impl Linear {
    /// The weight cut into `parts` matrices of equal numbers of rows (the groups of a grouped projection).
    ///
    /// # Panics
    /// If `parts` does not divide the rows.
    #[must_use]
    pub fn split_rows(&self, parts: usize) -> Vec<Matrix> {
        let whole = self.matrix();
        assert!(whole.rows.is_multiple_of(parts), "{} rows in {parts} parts", whole.rows);
        let (rows, cols) = (whole.rows / parts, whole.cols);
        let values = match (self, whole.values) {
            // The cut runs through blocks.
            (Self::Fp8Block { codes, scales, block }, Values::Fp8Block128 { .. }) if !rows.is_multiple_of(block[0]) => {
                Values::F32(expand_fp8(codes, scales, *block, cols))
            }
            (_, values) => values,
        };
        (0..parts).map(|p| Matrix { rows, cols, values: rows_of(&values, p, parts) }).collect()
    }
}

/// Part `p` of `parts` equal runs of rows; rows are contiguous in every format.
fn rows_of(values: &Values, p: usize, parts: usize) -> Values {
    let cut = |b: &Bytes| b.slice(b.len() / parts * p..b.len() / parts * (p + 1));
    match values {
        Values::F32(b) => Values::F32(cut(b)),
        Values::F16(b) => Values::F16(cut(b)),
        Values::Bf16(b) => Values::Bf16(cut(b)),
        Values::Nvfp4 { codes, scales, global } => {
            Values::Nvfp4 { codes: cut(codes), scales: cut(scales), global: *global }
        }
        Values::Fp8Block128 { codes, scales } => Values::Fp8Block128 { codes: cut(codes), scales: cut(scales) },
    }
}

fn expand_fp8(codes: &Tensor, scales: &Tensor, block: [usize; 2], cols: usize) -> Bytes {
    let across = cols.div_ceil(block[1]);
    let factors = scales.to_f32().unwrap_or_else(|| scales.bytes().iter().map(|&b| e8m0_to_f32(b)).collect());
    let mut out = Vec::with_capacity(codes.elements() * 4);
    for (i, &code) in codes.bytes().iter().enumerate() {
        let factor = factors[i / cols / block[0] * across + i % cols / block[1]];
        out.extend_from_slice(&(e4m3_to_f32(code) * factor).to_le_bytes());
    }
    out.into()
}

/// The cast that keeps every value: codes stay, `scale_2 = 2^m`, block scales `2^(k-m)` as E4M3, each written twice.
/// Powers of two from 2^-9 to 2^8 are E4M3 numbers, so it works while the exponents span no more than 17.
fn mxfp4_as_nvfp4(packed: &Tensor, scales: &Tensor) -> Option<Values> {
    let (low, high) = exponents(packed.bytes(), scales.bytes()).unwrap_or((127, 127));
    if high - low > SPAN {
        return None;
    }
    let m = i32::from(high) - 127 - 8;
    // Whatever the scale of a block of zeros, its numbers are zero.
    let doubled: Vec<u8> =
        scales.bytes().iter().flat_map(|&k| [power_of_two(i32::from(k.clamp(low, high)) - 127 - m); 2]).collect();
    // 2^m may lie below the smallest normal F32.
    Some(Values::Nvfp4 { codes: packed.bytes().clone(), scales: doubled.into(), global: f64::from(m).exp2() as f32 })
        .filter(|_| (-149..=127).contains(&m))
}

/// Exponents that E4M3 block scales can span.
pub(super) const SPAN: u8 = 17;

/// Smallest and largest scale of the blocks that hold anything but zeros (of either sign).
pub(super) fn exponents(packed: &[u8], scales: &[u8]) -> Option<(u8, u8)> {
    let blocks = packed.chunks(MXFP4_GROUP / 2).zip(scales);
    let used = blocks.filter(|(codes, _)| codes.iter().any(|b| b & 0x77 != 0)).map(|(_, &scale)| scale);
    used.fold(None, |range, k| range.map_or(Some((k, k)), |(low, high): (u8, u8)| Some((low.min(k), high.max(k)))))
}

/// The E4M3 code of `2^e`, for -9 to 8.
pub(super) fn power_of_two(e: i32) -> u8 {
    match e {
        // Subnormal numbers step by 2^-9.
        ..-6 => 1u8 << (e + 9),
        _ => ((e + 7) as u8) << 3,
    }
}

/// E2M1 numbers have two significant bits, so BF16 holds them times any power of two in its range.
fn expand_mxfp4(packed: &Tensor, scales: &Tensor) -> Bytes {
    let mut out = Vec::with_capacity(packed.bytes().len() * 4);
    for (codes, &scale) in packed.bytes().chunks(MXFP4_GROUP / 2).zip(scales.bytes().iter()) {
        let factor = e8m0_to_f32(scale);
        for code in codes.iter().flat_map(|b| [b & 15, b >> 4]) {
            out.extend_from_slice(&bf16::from_f32(E2M1[code as usize] * factor).to_le_bytes());
        }
    }
    out.into()
}
