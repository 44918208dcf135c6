//! Float arithmetic and conversions.

use proptest::prelude::*;
use sluicegate_kernels::{fp8, nvfp4};

use super::{LANES, Launch, bytes, words};

const TEXT: &str = include_str!("../snippets/float.ptx");

fn same(found: u32, wanted: f32, tolerance: u32) -> bool {
    let found = f32::from_bits(found);
    (found.is_nan() && wanted.is_nan()) || found.to_bits().abs_diff(wanted.to_bits()) <= tolerance
}

fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<f32>(),
        -100.0..100.0f32,
        -1.0..1.0f32,
        Just(0.0),
        Just(-0.0),
        Just(f32::NAN),
        Just(f32::INFINITY),
        Just(1e-40)
    ]
}

fn inputs() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(number(), 4 * LANES)
}

/// Rust leaves open which zero is the smaller one; PTX does not.
fn smaller(a: f32, b: f32) -> f32 {
    match (a == b, a.is_sign_negative()) {
        (true, true) => a,
        (true, false) => b,
        _ => a.min(b),
    }
}

fn larger_or_nan(a: f32, b: f32) -> f32 {
    match (a.is_nan() || b.is_nan(), a == b, a.is_sign_negative()) {
        (true, ..) => f32::NAN,
        (_, true, true) => b,
        (_, true, false) => a,
        _ => a.max(b),
    }
}

/// Of the bf16 numbers around a positive one the nearest, of two equally near the even one.
fn nearest(value: f64) -> u16 {
    let about = half::bf16::from_f64(value).to_bits();
    let number = |bits: u16| if bits == 0x7f80 { 2f64.powi(128) } else { half::bf16::from_bits(bits).to_f64() };
    let far = |bits: &u16| ((number(*bits) - value).abs(), bits & 1);
    let around = (about - 1)..=(about + 1).min(0x7f80);
    around.min_by(|a, b| far(a).partial_cmp(&far(b)).expect("numbers")).expect("some")
}

fn run(kernel: &str, results: usize, inputs: &[f32]) -> Vec<u32> {
    let inputs: Vec<u32> = inputs.iter().map(|x| x.to_bits()).collect();
    let out = vec![0; results * LANES * 4];
    words(&Launch::warp(TEXT, kernel).run(vec![out, bytes(&inputs)]).expect("a launch")[0])
}

fn floats(a: f32, b: f32, c: f32) -> [f32; 14] {
    let sum = a + b;
    [
        sum,
        a - b,
        a * b,
        a.mul_add(b, c),
        a / b,
        smaller(a, b),
        larger_or_nan(a, b),
        a.abs().sqrt(),
        1.0 / b,
        -a,
        if a.abs() < f32::MIN_POSITIVE { 0.0 } else { a },
        if sum.is_nan() { 0.0 } else { sum.clamp(0.0, 1.0) },
        c.exp2(),
        a.abs().log2(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn floats_are_rusts(inputs in inputs()) {
        let found = run("floats", 16, &inputs);
        for (lane, x) in inputs.chunks_exact(4).enumerate() {
            let (a, b, c) = (x[0], x[1], x[2]);
            for (i, wanted) in floats(a, b, c).into_iter().enumerate() {
                // Rust's own exp2 and log2 are a unit off at times.
                let bits = found[i * LANES + lane];
                let tolerance = if i >= 12 { 1 } else { 0 };
                prop_assert!(same(bits, wanted, tolerance), "result {} of {:?}: {:x} for {}", i, x, bits, wanted);
            }
            let nan = a.is_nan() || b.is_nan();
            let flags = u32::from(a < b) + 2 * u32::from(nan || a < b) + 4 * u32::from(nan);
            prop_assert_eq!(found[14 * LANES + lane], flags);
            prop_assert_eq!(found[15 * LANES + lane], c.copysign(b).to_bits());
        }
    }

    #[test]
    fn conversions_are_rusts(inputs in inputs()) {
        let found = run("conversions", 13, &inputs);
        for (lane, x) in inputs.chunks_exact(4).enumerate() {
            let at = |i: usize| found[i * LANES + lane];
            let (a, b) = (x[0], x[1]);
            let bf16 = |x: f32| if x.is_nan() { 0x7fff } else { u32::from(half::bf16::from_f32(x).to_bits()) };
            prop_assert_eq!(at(0), bf16(a) << 16 | bf16(b));
            prop_assert!(same(at(1), half::f16::from_f32(a).to_f32(), 0));
            prop_assert_eq!(at(2) as i32, a as i32);
            prop_assert_eq!(at(3), a.round_ties_even() as u32);
            prop_assert!(same(at(4), a.floor(), 0));
            prop_assert!(same(at(5), a.to_bits() as i32 as f32, 0));
            prop_assert!(same(at(6), (f64::from(a) * f64::from(a)) as f32, 0));
            let square = |x: f32| {
                let x = f64::from(half::bf16::from_f32(x).to_f32());
                let y = x.mul_add(x, 1.0);
                if y.is_nan() { 0x7fff } else { u32::from(nearest(y)) }
            };
            prop_assert_eq!(at(11), square(a) << 16 | square(b));
            prop_assert_eq!(at(12), square(b) << 16 | square(a));
        }
    }

    /// The crate that quantizes checkpoints has codecs of its own.
    #[test]
    fn small_formats_are_the_codecs_of_the_kernels(inputs in prop::collection::vec(-600.0..600.0f32, 4 * LANES)) {
        let scaled: Vec<f32> = inputs.iter().enumerate().map(|(i, x)| if i % 8 < 4 { x / 64.0 } else { *x }).collect();
        let found = run("conversions", 13, &scaled);
        for (lane, x) in scaled.chunks_exact(4).enumerate() {
            let at = |i: usize| found[i * LANES + lane];
            let halves = |bits: u32| (half::f16::from_bits((bits >> 16) as u16).to_f32(), half::f16::from_bits(bits as u16).to_f32());
            let codes = [fp8::f32_to_e4m3(x[0]), fp8::f32_to_e4m3(x[1])];
            prop_assert_eq!(at(7), u32::from(codes[0]) << 8 | u32::from(codes[1]), "{:?}", x);
            prop_assert_eq!(halves(at(8)), (fp8::e4m3_to_f32(codes[0]), fp8::e4m3_to_f32(codes[1])));
            let codes = [nvfp4::f32_to_e2m1(x[0]), nvfp4::f32_to_e2m1(x[1])];
            let pair = u32::from(codes[0] << 4 | codes[1]);
            prop_assert_eq!(at(9), pair * 0x0101_0101, "{:?}", x);
            prop_assert_eq!(halves(at(10)), (nvfp4::E2M1[codes[0] as usize], nvfp4::E2M1[codes[1] as usize]));
        }
    }
}
