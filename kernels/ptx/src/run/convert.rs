//! Conversions between number formats.

use super::float::{decode, encode};
use crate::ir::{Convert, Rounding};
use crate::numbers;
use crate::types::Type;

/// The result's bits. For pairs of numbers `a` goes to the upper half, `b` to the lower.
pub(super) fn convert(c: Convert, a: u64, b: u64) -> u64 {
    let pair = |to: &dyn Fn(f64) -> u64, bits: u32| {
        let one = |x: u64| to(flushed(c, decode(c.from, x)));
        one(a) << bits | one(b)
    };
    match c.to {
        Type::F16x2 | Type::Bf16x2 if c.from == Type::F32 => {
            let half = if c.to == Type::F16x2 { Type::F16 } else { Type::Bf16 };
            pair(&|x| encode(half, adjusted(c, x)), 16)
        }
        Type::E4m3x2 => pair(&|x| u64::from(numbers::to_e4m3(adjusted(c, x))), 8),
        Type::E5m2x2 => pair(&|x| u64::from(numbers::to_e5m2(adjusted(c, x))), 8),
        Type::E2m1x2 => pair(&|x| u64::from(numbers::to_e2m1(adjusted(c, x))), 4),
        Type::Ue8m0x2 => pair(&|x| u64::from(numbers::to_e8m0(x as f32, c.rounding == Some(Rounding::Up))), 8),
        Type::F16x2 | Type::Bf16x2 => unpack(c, a),
        _ => scalar(c, a),
    }
}

fn flushed(c: Convert, x: f64) -> f64 {
    if c.mode.flush && x.abs() < f64::from(f32::MIN_POSITIVE) { 0.0f64.copysign(x) } else { x }
}

fn adjusted(c: Convert, x: f64) -> f64 {
    if c.mode.relu && x < 0.0 { 0.0 } else { x }
}

/// Two small numbers as half precisions.
fn unpack(c: Convert, a: u64) -> u64 {
    let code = |n: u32| match c.from {
        Type::E2m1x2 => numbers::e2m1((a >> (4 * n)) as u8),
        Type::E4m3x2 => numbers::e4m3((a >> (8 * n)) as u8),
        Type::E5m2x2 => numbers::e5m2((a >> (8 * n)) as u8),
        _ => numbers::e8m0((a >> (8 * n)) as u8),
    };
    let half = if c.to == Type::F16x2 { Type::F16 } else { Type::Bf16 };
    let one = |n| encode(half, adjusted(c, code(n)));
    one(1) << 16 | one(0)
}

fn scalar(c: Convert, a: u64) -> u64 {
    match (c.to.is_integer(), c.from.is_integer()) {
        (true, true) => {
            let value = c.from.integer(a);
            if c.mode.saturate {
                let (least, most) = range(c.to);
                return c.to.truncate(value.clamp(least, most) as u64);
            }
            // A wider register holds a signed number with its sign.
            if c.to.is_signed() { value as u64 } else { c.to.truncate(value as u64) }
        }
        (true, false) => to_integer(c, a),
        (false, true) => from_integer(c.to, c.from.integer(a)),
        (false, false) => {
            let value = flushed(c, decode(c.from, a));
            let value = c.integral.map_or(value, |r| integral(value, r));
            let value = if c.mode.saturate && !(0.0..=1.0).contains(&value) { f64::from(value > 1.0) } else { value };
            if c.from == c.to && value.is_nan() { a } else { encode(c.to, adjusted(c, value)) }
        }
    }
}

fn range(ty: Type) -> (i128, i128) {
    let bits = ty.bits();
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// Out of range saturates; NaN becomes 0, or the most negative number of 64 bits.
fn to_integer(c: Convert, a: u64) -> u64 {
    let value = flushed(c, decode(c.from, a));
    if value.is_nan() {
        return if c.to.bits() == 64 { 1 << 63 } else { 0 };
    }
    let (least, most) = range(c.to);
    let rounded = integral(value, c.integral.unwrap_or(Rounding::Zero));
    c.to.truncate((rounded as i128).clamp(least, most) as u64)
}

/// One rounding, which for single precision a detour over double precision would not be.
fn from_integer(to: Type, value: i128) -> u64 {
    if to == Type::F32 { u64::from((value as f32).to_bits()) } else { encode(to, value as f64) }
}
