//! Row formats and DeepSeek's roundings against their definitions, found by trying every code.

use proptest::prelude::*;
use sluicegate_kernels::fp8::e4m3_to_f32;
use sluicegate_kernels::nvfp4::E2M1;
use sluicegate_kernels::ops::KvStore;
use sluicegate_kernels::rows::{Rounding, RowStore};

/// `2^ceil(log2(max(amax, floor) / most))`, in double precision.
fn scale(values: &[f32], floor: f64, most: f64) -> f64 {
    let amax = values.iter().fold(0f64, |m, v| m.max(f64::from(v.abs())));
    (amax.max(floor) / most).log2().ceil().exp2()
}

/// The nearest of some numbers; of two equally near ones that of the even code. Numbers beyond the largest become it.
fn nearest(x: f64, numbers: impl Iterator<Item = (u8, f32)>) -> f64 {
    let distance = |v: f32| (f64::from(v) - x).abs();
    let best = numbers.fold((0u8, f32::NAN), |best, (code, v)| {
        let better = best.1.is_nan() || distance(v) < distance(best.1);
        let tie = !best.1.is_nan() && distance(v) == distance(best.1) && code % 2 == 0 && best.0 % 2 == 1;
        if better || tie { (code, v) } else { best }
    });
    f64::from(best.1)
}

fn fp8sim(values: &[f32]) -> Vec<f32> {
    let s = scale(values, 1e-4, 448.0);
    let codes = || (0..=255u8).map(|c| (c, e4m3_to_f32(c))).filter(|(_, v)| v.is_finite());
    values.iter().map(|v| (nearest((f64::from(*v) / s).clamp(-448.0, 448.0), codes()) * s) as f32).collect()
}

fn fp4sim(values: &[f32]) -> Vec<f32> {
    let s = scale(values, 6.0 * 2f64.powi(-126), 6.0);
    let codes = || (0..16u8).map(|c| (c, E2M1[c as usize]));
    values.iter().map(|v| (nearest((f64::from(*v) / s).clamp(-6.0, 6.0), codes()) * s) as f32).collect()
}

/// Rows with outliers, tiny numbers, zeros and exact ties.
fn row(width: usize) -> impl Strategy<Value = Vec<f32>> {
    let number = prop_oneof![
        4 => -4.0..4.0f32,
        1 => -300.0..300.0f32,
        1 => -1e-6..1e-6f32,
        1 => prop::sample::select(vec![0.0, 0.25, 0.75, 1.25, 5.0, -0.75, 17.0, 448.0, -448.0, 1.0625]),
    ];
    prop::collection::vec(number, width)
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y)
}

#[test]
fn rows_have_the_sizes_of_the_published_layouts() {
    assert_eq!(RowStore::Fp8 { tail: 64 }.row_bytes(512), 584);
    assert_eq!(RowStore::Fp8Row.row_bytes(128), 132);
    assert_eq!(RowStore::Fp4.row_bytes(128), 68);
    assert_eq!(RowStore::Plain(KvStore::Bf16).row_bytes(512), 1024);
}

proptest! {
    #[test]
    fn key_value_rows_are_rounded_as_the_reference_rounds(x in row(144)) {
        // Two whole groups, a short one, and a rotated end.
        let (mut rounded, mut stored) = (x.clone(), x.clone());
        Rounding::Fp8 { tail: 8 }.apply(&mut rounded);
        let expected: Vec<f32> = x[..136].chunks(64).flat_map(fp8sim).chain(x[136..].iter().copied()).collect();
        prop_assert!(same(&rounded, &expected), "{:?}\n{:?}", rounded, expected);
        // What is stored is the same, with the end in BF16; and rounding first changes nothing.
        RowStore::Fp8 { tail: 8 }.round(&mut stored);
        prop_assert!(same(&stored[..136], &expected[..136]));
        let mut tail = x[136..].to_vec();
        RowStore::Plain(KvStore::Bf16).round(&mut tail);
        prop_assert!(same(&stored[136..], &tail));
        RowStore::Fp8 { tail: 8 }.round(&mut rounded);
        prop_assert!(same(&rounded, &stored));
        // E4M3 times a power of two is a BF16 number.
        let mut half = expected[..136].to_vec();
        RowStore::Plain(KvStore::Bf16).round(&mut half);
        prop_assert!(same(&half, &expected[..136]));
    }

    #[test]
    fn index_keys_are_rounded_as_the_reference_rounds(x in row(128)) {
        let mut stored = x.clone();
        RowStore::Fp4.round(&mut stored);
        prop_assert!(same(&stored, &x.chunks(32).flat_map(fp4sim).collect::<Vec<_>>()));
        let mut again = stored.clone();
        RowStore::Fp4.round(&mut again);
        prop_assert!(same(&again, &stored));
        let (mut both, mut transformed) = (x.clone(), x.clone());
        Rounding::HadamardFp4.apply(&mut both);
        Rounding::Hadamard.apply(&mut transformed);
        prop_assert!(same(&both, &transformed.chunks(32).flat_map(fp4sim).collect::<Vec<_>>()));
        // E4M3 has three fraction bits: half a step is a sixteenth of the number, or of the smallest normal one.
        let mut eight = x.clone();
        RowStore::Fp8Row.round(&mut eight);
        let amax = x.iter().fold(1e-4f32, |m, v| m.max(v.abs()));
        for (a, b) in x.iter().zip(&eight) {
            let step = a.abs().max(amax / 448.0 / 64.0) / 16.0;
            prop_assert!((a - b).abs() <= step * 1.0001, "{} became {}", a, b);
        }
    }

    #[test]
    fn the_transform_keeps_scalar_products(x in row(64), y in row(64)) {
        let transformed = |v: &[f32]| {
            let mut v = v.to_vec();
            Rounding::Hadamard.apply(&mut v);
            v
        };
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        let size = (dot(&x, &x) * dot(&y, &y)).sqrt();
        prop_assert!((dot(&transformed(&x), &transformed(&y)) - dot(&x, &y)).abs() <= 1e-5 * size + 1e-9);
        // Sylvester's matrix: entry (i, j) is -1 to the number of ones in i and j.
        for (i, found) in transformed(&x).iter().enumerate() {
            let sign = |j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
            let exact: f64 = x.iter().enumerate().map(|(j, v)| sign(j) * f64::from(*v)).sum::<f64>() / 8.0;
            prop_assert!((f64::from(*found) - exact).abs() <= 1e-5 * dot(&x, &x).sqrt() + 1e-9);
        }
    }
}
