//! Kernels that work row by row: norm, conversion, activation, gather, argmax, embedding.

use sluicegate_kernels::cuda::call::{Address, Floats, Inputs, RowCount};
use sluicegate_kernels::cuda::calls;
use sluicegate_kernels::{fp8, nvfp4};

use super::Case;
use crate::numbers::{Dice, bf16, compare, e2m1};
use crate::program::Program;

/// Rows that the grid has beyond those that count; their output must stay untouched.
const SPARE: usize = 2;

/// Room for both forms of linears' input.
pub(super) fn inputs(p: &mut Program, rows: usize, width: usize) -> Inputs {
    let stride = width.next_multiple_of(64);
    let halves = p.bytes(vec![0; rows * stride * 2]);
    let floats = p.room::<f32>(rows * width);
    Inputs { halves, half_stride: stride as u32, floats, float_stride: width as u32 }
}

pub(super) fn row_count(p: &mut Program, rows: usize, spare: usize) -> RowCount {
    RowCount { at: p.put(&[rows as u32]), most: (rows + spare) as u32 }
}

/// Checks both forms against `expected` rows of `width`, and that nothing else was written.
pub(super) fn check_inputs(p: &Program, out: Inputs, width: usize, expected: &[f64]) -> Result<(), String> {
    let rows = expected.len() / width;
    let floats: Vec<f64> = p.get::<f32>(out.floats).into_iter().map(f64::from).collect();
    compare("f32", &floats, expected, 2e-6, 1e-6)?;
    if floats[expected.len()..].iter().any(|v| !v.is_nan()) {
        return Err("a row beyond the count was written".into());
    }
    let stride = out.half_stride as usize;
    let halves = p.get::<u16>(out.halves);
    for row in 0..rows {
        let found: Vec<f64> = halves[row * stride..][..width].iter().map(|&v| bf16(v)).collect();
        compare("bf16", &found, &expected[row * width..][..width], 1.0 / 250.0, 1e-6)?;
        if halves[row * stride + width..(row + 1) * stride].iter().any(|&v| v != 0) {
            return Err("padding was written".into());
        }
    }
    Ok(())
}

pub(super) fn norm() -> Vec<Case> {
    let shapes = [(3, 256, 256), (1, 130, 160), (2, 1536, 1536), (5, 48, 48)];
    shapes.into_iter().map(|(rows, width, stride)| rms_norm_case(rows, width, stride)).collect()
}

fn rms_norm_case(rows: usize, width: usize, stride: usize) -> Case {
    let mut p = Program::default();
    let mut dice = Dice::new(width as u64);
    let (x, gain, eps) = (dice.floats((rows + SPARE) * stride), dice.floats(width), 1e-5f32);
    let expected: Vec<f64> = x
        .chunks_exact(stride)
        .take(rows)
        .flat_map(|row| {
            let row = &row[..width];
            let mean = row.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / width as f64;
            let scale = 1.0 / (mean + f64::from(eps)).sqrt();
            row.iter().zip(&gain).map(move |(&v, &g)| f64::from(v) * scale * f64::from(g)).collect::<Vec<_>>()
        })
        .collect();
    let out = inputs(&mut p, rows + SPARE, width);
    let from = Floats { at: p.put(&x), stride: stride as u32, width: width as u32 };
    let (gain, count) = (p.put(&gain), row_count(&mut p, rows, SPARE));
    p.call(calls::rms_norm(from, gain, eps, out, count));
    Case::new(format!("rms_norm {rows} x {width}"), p, move |p| check_inputs(p, out, width, &expected))
}

pub(super) fn rows() -> Vec<Case> {
    vec![convert_case(), silu_up_case(f32::INFINITY), silu_up_case(0.5), gather_case(), argmax_case()]
}

fn convert_case() -> Case {
    let (rows, width) = (3, 200);
    let mut p = Program::default();
    let x = Dice::new(1).floats((rows + SPARE) * width);
    let expected: Vec<f64> = x[..rows * width].iter().map(|&v| v.into()).collect();
    let out = inputs(&mut p, rows + SPARE, width);
    let from = Floats { at: p.put(&x), stride: width as u32, width: width as u32 };
    let count = row_count(&mut p, rows, SPARE);
    p.call(calls::convert(from, out, count));
    Case::new("convert", p, move |p| check_inputs(p, out, width, &expected))
}

fn silu_up_case(limit: f32) -> Case {
    let (rows, width) = (3, 96);
    let mut p = Program::default();
    let both: Vec<f32> = Dice::new(2).floats((rows + SPARE) * 2 * width).into_iter().map(|v| v * 4.0).collect();
    let l = f64::from(limit);
    let expected: Vec<f64> = (0..rows * width)
        .map(|i| {
            let row = &both[i / width * 2 * width..];
            let (g, u) = (f64::from(row[i % width]).min(l), f64::from(row[width + i % width]).clamp(-l, l));
            g / (1.0 + (-g).exp()) * u
        })
        .collect();
    let out = inputs(&mut p, rows + SPARE, width);
    let at = p.put(&both);
    let gate = Floats { at, stride: 2 * width as u32, width: width as u32 };
    let count = row_count(&mut p, rows, SPARE);
    p.call(calls::silu_up(gate, at.plus(4 * width), limit, out, count));
    Case::new(format!("silu_up, limit {limit}"), p, move |p| check_inputs(p, out, width, &expected))
}

fn gather_case() -> Case {
    let (rows, width, samples) = (7, 80, [1u32, 4, 6]);
    let mut p = Program::default();
    let x = Dice::new(3).floats(rows * width);
    let expected: Vec<f64> =
        samples.iter().flat_map(|&r| &x[r as usize * width..][..width]).map(|&v| f64::from(v)).collect();
    let to = p.room::<f32>((samples.len() + SPARE) * width);
    let out = Floats { at: to, stride: width as u32, width: width as u32 };
    let from = Floats { at: p.put(&x), ..out };
    let (list, count) = (p.put(&samples), row_count(&mut p, samples.len(), SPARE));
    p.call(calls::gather_rows(from, list, out, count));
    Case::new("gather_rows", p, move |p| {
        let found: Vec<f64> = p.get::<f32>(to).into_iter().map(f64::from).collect();
        compare("row", &found, &expected, 0.0, 0.0)
    })
}

fn argmax_case() -> Case {
    let (rows, width) = (5, 1000);
    let mut p = Program::default();
    let mut x = Dice::new(4).floats(rows * width);
    // Equal largest numbers, the last column, a row of -inf but one, and NaN that must lose.
    (x[700], x[130], x[width + 999]) = (3.0, 3.0, 2.0);
    x[2 * width..3 * width].fill(f32::NEG_INFINITY);
    x[2 * width + 17] = -1e30;
    x[3 * width] = f32::NAN;
    x[3 * width + 5] = 9.0;
    let best = (0..width).fold(0, |b, i| if x[4 * width + i] > x[4 * width + b] { i } else { b });
    let expected = [130, 999, 17, 5, best as u32];
    let out = p.room::<u32>(rows);
    let from = Floats { at: p.put(&x), stride: width as u32, width: width as u32 };
    let count = row_count(&mut p, rows, 0);
    p.call(calls::argmax(from, out, count));
    Case::new("argmax", p, move |p| {
        let found = p.get::<u32>(out);
        if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
    })
}

pub(super) fn embed() -> Vec<Case> {
    let (vocabulary, width) = (11, 96);
    let mut dice = Dice::new(5);
    let values = dice.floats(vocabulary * width);
    let halves = dice.halves(vocabulary * width);
    let singles: Vec<u16> = (0..vocabulary * width).map(|i| (i * 61) as u16 & 0xfbff).collect();
    let (codes, scales) = nvfp4::quantize(&values, 0.001).unwrap_or_default();
    let decoded: Vec<f64> = (0..values.len())
        .map(|i| {
            let scale = f64::from(fp8::e4m3_to_f32(scales[i / 16]));
            e2m1(codes[i / 2] >> (i % 2 * 4)) * scale * f64::from(0.001f32)
        })
        .collect();
    let plain =
        |kernel, bytes: fn(&mut Program, &[u16], &[f32]) -> Address, numbers: Vec<f64>, h: &[u16], v: &[f32]| {
            embed_case(kernel, width, numbers, |p| {
                let table = bytes(p, h, v);
                move |tokens, out, rows| calls::embed(kernel, table, tokens, out, rows)
            })
        };
    vec![
        plain("embed_f32", |p, _, v| p.put(v), values.iter().map(|&v| v.into()).collect(), &[], &values),
        plain("embed_bf16", |p, h, _| p.put(h), halves.iter().map(|&v| bf16(v)).collect(), &halves, &[]),
        plain("embed_f16", |p, h, _| p.put(h), singles.iter().map(|&v| half(v)).collect(), &singles, &[]),
        embed_case("embed_nvfp4", width, decoded, |p| {
            let (codes, scales) = (p.bytes(codes.clone()), p.bytes(scales.clone()));
            move |tokens, out, rows| calls::embed_nvfp4((codes, scales, 0.001), tokens, out, rows)
        }),
    ]
}

/// Half precision by its definition.
fn half(code: u16) -> f64 {
    let (exponent, fraction) = (i32::from(code >> 10 & 31), f64::from(code & 0x3ff));
    let magnitude =
        if exponent == 0 { fraction * 2f64.powi(-24) } else { (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15) };
    if code & 0x8000 != 0 { -magnitude } else { magnitude }
}

fn embed_case<F>(name: &'static str, width: usize, numbers: Vec<f64>, table: impl FnOnce(&mut Program) -> F) -> Case
where
    F: FnOnce(Address, Floats, RowCount) -> sluicegate_kernels::cuda::call::Call,
{
    let mut p = Program::default();
    let call = table(&mut p);
    let tokens = [7u32, 0, 10, 7];
    let expected: Vec<f64> = tokens.iter().flat_map(|&t| &numbers[t as usize * width..][..width]).copied().collect();
    let at = p.room::<f32>((tokens.len() + SPARE) * width);
    let out = Floats { at, stride: width as u32, width: width as u32 };
    let mut padded = tokens.to_vec();
    padded.extend([u32::MAX; SPARE]);
    let (list, rows) = (p.put(&padded), row_count(&mut p, tokens.len(), SPARE));
    p.call(call(list, out, rows));
    Case::new(name, p, move |p| {
        let found: Vec<f64> = p.get::<f32>(at).into_iter().map(f64::from).collect();
        compare("row", &found, &expected, 1e-7, 0.0)
    })
}
