//! Matrix products in each format, with each finish and row tile; tiles must agree bit for bit.

use sluicegate_kernels::cuda::call::{Address, Floats, Inputs, RowCount};
use sluicegate_kernels::cuda::calls::{self, Finish, TileRows, WeightsAt};
use sluicegate_kernels::cuda::pack::{self, Format, Packed};
use sluicegate_kernels::tensor::{Matrix, Values};
use sluicegate_kernels::{fp8, nvfp4};

use super::Case;
use super::rows::{check_inputs, inputs, row_count};
use crate::numbers::{Dice, bf16, compare, e2m1, to_bf16};
use crate::program::Program;

/// A matrix of random numbers, and its values.
pub(super) fn matrix(format: Format, rows: usize, cols: usize, seed: u64) -> (Matrix, Vec<f64>) {
    let numbers = Dice::new(seed).floats(rows * cols);
    let (values, decoded) = match format {
        Format::Bf16 => {
            let codes: Vec<u16> = numbers.into_iter().map(to_bf16).collect();
            let bytes: Vec<u8> = codes.iter().flat_map(|c| c.to_le_bytes()).collect();
            (Values::Bf16(bytes.into()), codes.into_iter().map(bf16).collect())
        }
        Format::Nvfp4 => {
            let global = 3e-4 * (seed % 7 + 1) as f32;
            let (codes, scales) = nvfp4::quantize(&numbers, global).unwrap_or_default();
            let value = |i: usize| {
                let scale = f64::from(fp8::e4m3_to_f32(scales[i / 16]));
                e2m1(codes[i / 2] >> (i % 2 * 4)) * scale * f64::from(global)
            };
            let decoded = (0..rows * cols).map(value).collect();
            (Values::Nvfp4 { codes: codes.into(), scales: scales.into(), global }, decoded)
        }
        Format::Fp8 => {
            // Powers of two that differ from block to block.
            let spread: Vec<f32> =
                numbers.iter().enumerate().map(|(i, v)| v * [1.0, 300.0][i % cols / 128 % 2]).collect();
            let (codes, scales) = fp8::quantize_block128(&spread, cols).unwrap_or_default();
            let across = cols.div_ceil(128);
            let value = |i: usize| {
                let scale = fp8::e8m0_to_f32(scales[i / cols / 128 * across + i % cols / 128]);
                f64::from(fp8::e4m3_to_f32(codes[i])) * f64::from(scale)
            };
            let decoded = (0..rows * cols).map(value).collect();
            (Values::Fp8Block128 { codes: codes.into(), scales: scales.into() }, decoded)
        }
    };
    (Matrix { rows, cols, values }, decoded)
}

pub(super) fn upload(p: &mut Program, packed: &Packed) -> WeightsAt {
    WeightsAt {
        format: packed.format,
        codes: p.bytes(packed.codes.clone()),
        scales: p.bytes(packed.scales.clone()),
        alpha: p.put(&packed.alpha),
        columns: packed.columns as u32,
        steps: packed.steps as u32,
    }
}

/// bf16 rows in padded form, and their values.
pub(super) fn activations(p: &mut Program, rows: usize, cols: usize, seed: u64) -> (Inputs, Vec<f64>) {
    let codes = Dice::new(seed).halves(rows * cols);
    let stride = cols.next_multiple_of(64);
    let mut padded = vec![0u16; rows * stride];
    for (to, from) in padded.chunks_exact_mut(stride).zip(codes.chunks_exact(cols)) {
        to[..cols].copy_from_slice(from);
    }
    let halves = p.put(&padded);
    let inputs = Inputs { halves, half_stride: stride as u32, floats: Address::NULL, float_stride: 0 };
    (inputs, codes.into_iter().map(bf16).collect())
}

/// `a` times the transpose of `w`, and the sum of magnitudes, which bounds the rounding.
pub(super) fn product(a: &[f64], w: &[f64], cols: usize) -> (Vec<f64>, Vec<f64>) {
    let pairs = a.chunks_exact(cols).flat_map(|a| w.chunks_exact(cols).map(move |w| (a, w)));
    pairs
        .map(|(a, w)| {
            let products = a.iter().zip(w).map(|(a, w)| a * w);
            products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()))
        })
        .unzip()
}

pub(super) fn nvfp4() -> Vec<Case> {
    cases(Format::Nvfp4)
}

pub(super) fn bf16_cases() -> Vec<Case> {
    cases(Format::Bf16)
}

pub(super) fn fp8() -> Vec<Case> {
    cases(Format::Fp8)
}

fn cases(format: Format) -> Vec<Case> {
    vec![
        // Shorter than there are slices; more; a width that is no whole step.
        plain(format, 1, 40, 192, false),
        plain(format, 16, 104, 656, true),
        gated(format, 5, 40, 320, f32::INFINITY),
        gated(format, 16, 24, 64, 0.25),
        tiles(format, 75, 136, 304),
        super::moe::layer(format),
    ]
}

fn plain(format: Format, rows: usize, columns: usize, cols: usize, add: bool) -> Case {
    let mut p = Program::default();
    let (a, a_values) = activations(&mut p, rows, cols, 1);
    // Two matrices in one launch: each keeps its tensor scale.
    let (first, mut w) = matrix(format, 16, cols, 2);
    let (second, rest) = matrix(format, columns - 16, cols, 3);
    w.extend(rest);
    let packed = pack::stack(&[&first, &second]).unwrap_or_else(|e| panic!("{e}"));
    let weights = upload(&mut p, &packed);
    let before = Dice::new(9).floats(rows * columns);
    let at = if add { p.put(&before) } else { p.room::<f32>(rows * columns) };
    let out = Floats { at, stride: columns as u32, width: columns as u32 };
    let count = row_count(&mut p, rows, 0);
    let finish = if add { Finish::Add(out) } else { Finish::Store(out) };
    p.call(calls::gemm(a, weights, finish, count, TileRows::Few));
    let (mut expected, sizes) = product(&a_values, &w, cols);
    if add {
        expected.iter_mut().zip(&before).for_each(|(e, &b)| *e += f64::from(b));
    }
    Case::new(format!("{format:?} {rows} x {columns} x {cols}, add {add}"), p, move |p| {
        check_product("out", &p.get::<f32>(at), &expected, &sizes)
    })
}

fn check_product(what: &str, found: &[f32], expected: &[f64], sizes: &[f64]) -> Result<(), String> {
    for (i, ((&f, &e), &size)) in found.iter().zip(expected).zip(sizes).enumerate() {
        compare(&format!("{what}[{i}]"), &[f.into()], &[e], 1e-6, 2e-6 * (size + 1.0))?;
    }
    Ok(())
}

fn gated(format: Format, rows: usize, inner: usize, cols: usize, limit: f32) -> Case {
    let mut p = Program::default();
    let (a, a_values) = activations(&mut p, rows, cols, 4);
    let ((gate, gate_values), (up, up_values)) = (matrix(format, inner, cols, 5), matrix(format, inner, cols, 6));
    let packed = pack::gated(&gate, &up).unwrap_or_else(|e| panic!("{e}"));
    let weights = upload(&mut p, &packed);
    let out = inputs(&mut p, rows, inner);
    let count = row_count(&mut p, rows, 0);
    p.call(calls::gemm(a, weights, Finish::Gated { out, limit }, count, TileRows::Few));
    let ((gates, _), (ups, _)) = (product(&a_values, &gate_values, cols), product(&a_values, &up_values, cols));
    let l = f64::from(limit);
    let expected: Vec<f64> = gates
        .iter()
        .zip(&ups)
        .map(|(g, u)| {
            let g = g.min(l);
            g / (1.0 + (-g).exp()) * u.clamp(-l, l)
        })
        .collect();
    Case::new(format!("{format:?} gated {rows} x {inner} x {cols}"), p, move |p| {
        let scale = expected.iter().fold(0f64, |m, v| m.max(v.abs()));
        let found: Vec<f64> = p.get::<f32>(out.floats).into_iter().map(f64::from).collect();
        compare("gated", &found, &expected, 1e-5, scale * 1e-5)?;
        check_inputs(p, out, inner, &found)
    })
}

/// All rows with tiles of 64 and of 128 rows, and the last 16 with the kernel for few: the same bits, and right.
fn tiles(format: Format, rows: usize, columns: usize, cols: usize) -> Case {
    let mut p = Program::default();
    let (a, a_values) = activations(&mut p, rows, cols, 7);
    let (m, w) = matrix(format, columns, cols, 8);
    let weights = upload(&mut p, &pack::stack(&[&m]).unwrap_or_else(|e| panic!("{e}")));
    let floats = |p: &mut Program, rows: usize| Floats {
        at: p.room::<f32>(rows * columns),
        stride: columns as u32,
        width: columns as u32,
    };
    let (few, some, many) = (floats(&mut p, 16), floats(&mut p, rows), floats(&mut p, rows));
    let (all, sixteen) = (row_count(&mut p, rows, 0), row_count(&mut p, 16, 0));
    let last = Inputs { halves: a.halves.plus((rows - 16) * a.half_stride as usize * 2), ..a };
    p.call(calls::gemm(a, weights, Finish::Store(some), all, TileRows::Some));
    p.call(calls::gemm(a, weights, Finish::Store(many), RowCount { most: rows as u32 + 128, ..all }, TileRows::Many));
    p.call(calls::gemm(last, weights, Finish::Store(few), sixteen, TileRows::Few));
    let (expected, sizes) = product(&a_values, &w, cols);
    Case::new(format!("{format:?} tiles {rows} x {columns} x {cols}"), p, move |p| {
        let bits = |f: Floats| p.get::<u32>(f.at);
        check_product("64 rows", &p.get::<f32>(some.at), &expected, &sizes)?;
        if bits(some) != bits(many) {
            return Err("tiles of 64 and 128 rows differ".into());
        }
        if bits(some)[(rows - 16) * columns..] != bits(few)[..] {
            return Err("few rows and many rows differ".into());
        }
        Ok(())
    })
}

pub(super) fn f32_cases() -> Vec<Case> {
    [false, true].into_iter().map(f32_case).collect()
}

fn f32_case(add: bool) -> Case {
    let (rows, columns, width) = (3, 10, 200);
    let mut p = Program::default();
    let mut dice = Dice::new(11);
    let (a, w, before) = (dice.floats(rows * width), dice.floats(columns * width), dice.floats(rows * columns));
    let wide = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
    let (mut expected, sizes) = product(&wide(&a), &wide(&w), width);
    if add {
        expected.iter_mut().zip(&before).for_each(|(e, &b)| *e += f64::from(b));
    }
    let from = Floats { at: p.put(&a), stride: width as u32, width: width as u32 };
    let weights = p.put(&w);
    let out = Floats { at: p.put(&before), stride: columns as u32, width: columns as u32 };
    let count = row_count(&mut p, rows, 2);
    p.call(calls::gemm_f32(from, weights, out, add, count));
    Case::new(format!("gemm_f32, add {add}"), p, move |p| {
        check_product("out", &p.get::<f32>(out.at), &expected, &sizes)
    })
}
