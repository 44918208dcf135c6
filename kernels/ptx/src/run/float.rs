//! Float arithmetic: single and double precision, half precisions alone and in pairs.

use half::{bf16, f16};

use super::integer::holds;
use crate::ir::{Float, FloatMode, Test};
use crate::types::Type;

/// The number that the bits mean.
pub(super) fn decode(ty: Type, bits: u64) -> f64 {
    match ty {
        Type::F64 => f64::from_bits(bits),
        Type::F16 => f16::from_bits(bits as u16).to_f64(),
        Type::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}

/// The nearest number's bits, ties to even. Of single precision NaN becomes the canonical one, as on the GPU.
pub(super) fn encode(ty: Type, value: f64) -> u64 {
    match ty {
        Type::F64 => value.to_bits(),
        Type::F16 if value.is_nan() => 0x7fff,
        Type::F16 => u64::from(f16::from_f32(odd(value)).to_bits()),
        Type::Bf16 if value.is_nan() => 0x7fff,
        Type::Bf16 => u64::from(bf16::from_f32(odd(value)).to_bits()),
        _ if value.is_nan() => 0x7fff_ffff,
        _ => u64::from((value as f32).to_bits()),
    }
}

/// Rounded to odd: what is lost shows in the last bit, so that rounding once more, to a half, rounds correctly.
/// (`from_f64` of the `half` crate forgets the lower half of the double.)
fn odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value {
        return near;
    }
    let beyond = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(beyond)) | 1)
}

/// The two halves' type of a packed type.
fn half_type(ty: Type) -> Option<Type> {
    match ty {
        Type::F16x2 => Some(Type::F16),
        Type::Bf16x2 => Some(Type::Bf16),
        _ => None,
    }
}

/// The result's bits; operands are `a, b, c` in order.
pub(super) fn compute(op: Float, ty: Type, mode: FloatMode, inputs: [u64; 4]) -> u64 {
    if let Some(half) = half_type(ty) {
        let part = |shift: u32| scalar(op, half, mode, inputs.map(|i| i >> shift & 0xffff));
        return part(0) | part(16) << 16;
    }
    scalar(op, ty, mode, inputs)
}

/// `a + b`, for atomics.
pub(super) fn add(ty: Type, a: u64, b: u64) -> u64 {
    compute(Float::Add, ty, FloatMode::default(), [a, b, 0, 0])
}

fn scalar(op: Float, ty: Type, mode: FloatMode, inputs: [u64; 4]) -> u64 {
    let flush =
        |bits: u64| if mode.flush && ty == Type::F32 && bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits };
    let [a, b, c, _] = inputs.map(flush);
    // Signs of NaN and of zero survive these.
    let sign = 1u64 << (ty.bits() - 1);
    match op {
        Float::Neg => return a ^ sign,
        Float::Abs => return a & !sign,
        Float::CopySign => return b & !sign | a & sign,
        _ => {}
    }
    let bits = match ty {
        // Computed in its own precision; in double precision a sum or a fused product would be rounded twice.
        Type::F32 => single(op, [a, b, c].map(|x| f32::from_bits(x as u32)), mode),
        _ => encode(ty, wide(op, [a, b, c].map(|x| decode(ty, x)), mode)),
    };
    limit(ty, flush(bits), mode)
}

fn limit(ty: Type, bits: u64, mode: FloatMode) -> u64 {
    let value = decode(ty, bits);
    if mode.saturate && !(0.0..=1.0).contains(&value) {
        return encode(ty, if value > 1.0 { 1.0 } else { 0.0 });
    }
    if mode.relu && value < 0.0 { 0 } else { bits }
}

fn single(op: Float, [a, b, c]: [f32; 3], mode: FloatMode) -> u64 {
    let value = match op {
        Float::Add => a + b,
        Float::Sub => a - b,
        Float::Mul => a * b,
        Float::Fma => a.mul_add(b, c),
        Float::Div => a / b,
        Float::Sqrt => a.sqrt(),
        Float::Rcp => 1.0 / a,
        _ => return encode(Type::F32, wide(op, [a, b, c].map(f64::from), mode)),
    };
    if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) }
}

/// In double precision, rounded by the caller. Sums and products of two half-precision numbers are exact here.
fn wide(op: Float, [a, b, c]: [f64; 3], mode: FloatMode) -> f64 {
    match op {
        Float::Add => a + b,
        Float::Sub => a - b,
        Float::Mul => a * b,
        Float::Fma => a.mul_add(b, c),
        Float::Div => a / b,
        Float::Min | Float::Max if mode.nan && (a.is_nan() || b.is_nan()) => f64::NAN,
        // Zeros differ by their sign.
        Float::Min if a == b => {
            if a.is_sign_negative() {
                a
            } else {
                b
            }
        }
        Float::Max if a == b => {
            if a.is_sign_negative() {
                b
            } else {
                a
            }
        }
        Float::Min => a.min(b),
        Float::Max => a.max(b),
        Float::Sqrt => a.sqrt(),
        Float::Rsqrt => 1.0 / a.sqrt(),
        Float::Rcp => 1.0 / a,
        Float::Exp2 => a.exp2(),
        Float::Log2 => a.log2(),
        Float::Sin => a.sin(),
        Float::Cos => a.cos(),
        Float::Tanh => a.tanh(),
        // Done on the bits.
        Float::Neg | Float::Abs | Float::CopySign => a,
    }
}

/// A comparison.
pub(super) fn test(test: Test, ty: Type, a: u64, b: u64) -> bool {
    let (a, b) = (decode(ty, a), decode(ty, b));
    let order = a.partial_cmp(&b);
    match test {
        Test::Ordered(c) => holds(c, order),
        Test::Unordered(c) => order.is_none() || holds(c, order),
        Test::Numbers => order.is_some(),
        Test::Nan => order.is_none(),
    }
}
