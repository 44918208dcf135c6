//! Quantized activations, and FP4 with FP4.

use sluicegate_kernels::cuda::call::{Address, Floats, RowCount};
use sluicegate_kernels::cuda::calls::{self, Finish, Fp4At};
use sluicegate_kernels::cuda::pack::{self, Format};
use sluicegate_kernels::nvfp4;

use super::Case;
use super::gemm::{activations, matrix, product, upload};
use super::rows::{check_inputs, inputs, row_count};
use crate::numbers::{compare, e2m1};
use crate::program::Program;

fn room(p: &mut Program, rows: usize, width: usize) -> Fp4At {
    let padded = width.next_multiple_of(pack::FP4_STEP);
    Fp4At {
        codes: p.bytes(vec![0; rows * padded / 2]),
        scales: p.bytes(vec![0; rows * padded / 16]),
        row_scales: p.room::<f32>(rows),
        padded: padded as u32,
    }
}

/// Codes, block scales and row scale as the codec for weights makes them.
fn quantized(row: &[f64]) -> (Vec<u8>, Vec<u8>, f32) {
    let row: Vec<f32> = row.iter().map(|&v| v as f32).collect();
    let global = nvfp4::global_scale(row.iter().fold(0f32, |m, v| m.max(v.abs())));
    let (codes, scales) = nvfp4::quantize(&row, global).unwrap_or_default();
    (codes, scales, global)
}

fn values(codes: &[u8], scales: &[u8], global: f32) -> Vec<f64> {
    let scale = |i: usize| f64::from(sluicegate_kernels::fp8::e4m3_to_f32(scales[i / 16])) * f64::from(global);
    (0..codes.len() * 2).map(|i| e2m1(codes[i / 2] >> (i % 2 * 4)) * scale(i)).collect()
}

pub(super) fn quantize() -> Vec<Case> {
    vec![quantize_case(3, 208), quantize_case(2, 4096)]
}

fn quantize_case(rows: usize, width: usize) -> Case {
    let mut p = Program::default();
    let (x, mut numbers) = activations(&mut p, rows, width, width as u64);
    // A row of zeros, and a block of zeros in another row.
    let (buffer, _) = Program::place(x.halves);
    p.buffers[buffer][..width * 2].fill(0);
    p.buffers[buffer][(x.half_stride as usize + 16) * 2..][..32].fill(0);
    numbers[..width].fill(0.0);
    numbers[width + 16..width + 32].fill(0.0);
    let out = room(&mut p, rows + 1, width);
    let count = row_count(&mut p, rows, 1);
    p.call(calls::quantize_nvfp4(x, width as u32, out, count));
    Case::new(format!("quantize_nvfp4 {rows} x {width}"), p, move |p| {
        let padded = out.padded as usize;
        let (codes, scales, globals) = (p.get::<u8>(out.codes), p.get::<u8>(out.scales), p.get::<f32>(out.row_scales));
        for (row, numbers) in numbers.chunks_exact(width).enumerate() {
            let expected = quantized(numbers);
            let found = (&codes[row * padded / 2..][..width / 2], &scales[row * padded / 16..][..width / 16]);
            if found != (&expected.0[..], &expected.1[..]) || globals[row] != expected.2 {
                return Err(format!("row {row} differs from the codec for weights"));
            }
        }
        if codes[rows * padded / 2..].iter().chain(&scales[rows * padded / 16..]).any(|&b| b != 0) {
            return Err("a row beyond the count was written".into());
        }
        Ok(())
    })
}

pub(super) fn w4a4() -> Vec<Case> {
    vec![
        plain(3, 40, 192, false),
        plain(16, 72, 256, true),
        // More steps than stages, so that one is filled again.
        plain(4, 24, 400, false),
        gated(5, 40, 128),
        gated(70, 24, 80),
        invariant(),
    ]
}

/// Rows quantized on the device, and their values.
fn fp4_rows(p: &mut Program, rows: usize, cols: usize, count: RowCount) -> (Fp4At, Vec<f64>) {
    let (x, numbers) = activations(p, rows, cols, 21);
    let a = room(p, rows, cols);
    p.call(calls::quantize_nvfp4(x, cols as u32, a, count));
    let decoded = numbers
        .chunks_exact(cols)
        .flat_map(|row| {
            let (codes, scales, global) = quantized(row);
            values(&codes, &scales, global)
        })
        .collect();
    (a, decoded)
}

fn plain(rows: usize, columns: usize, cols: usize, add: bool) -> Case {
    let mut p = Program::default();
    let count = row_count(&mut p, rows, 0);
    let (a, a_values) = fp4_rows(&mut p, rows, cols, count);
    let (m, w) = matrix(Format::Nvfp4, columns, cols, 22);
    let weights = upload(&mut p, &pack::stack_fp4(&[&m]).unwrap_or_else(|e| panic!("{e}")));
    let at = p.put(&vec![0.5f32; rows * columns]);
    let out = Floats { at, stride: columns as u32, width: columns as u32 };
    p.call(calls::gemm_w4a4(a, weights, if add { Finish::Add(out) } else { Finish::Store(out) }, count));
    let (expected, sizes) = product(&a_values, &w, cols);
    Case::new(format!("w4a4 {rows} x {columns} x {cols}, add {add}"), p, move |p| {
        for (i, &found) in p.get::<f32>(at).iter().enumerate() {
            let before = if add { 0.5 } else { 0.0 };
            compare(&format!("out[{i}]"), &[found.into()], &[expected[i] + before], 1e-6, 2e-6 * (sizes[i] + 1.0))?;
        }
        Ok(())
    })
}

fn gated(rows: usize, inner: usize, cols: usize) -> Case {
    let mut p = Program::default();
    let count = row_count(&mut p, rows, 0);
    let (a, a_values) = fp4_rows(&mut p, rows, cols, count);
    let ((gate, g), (up, u)) = (matrix(Format::Nvfp4, inner, cols, 23), matrix(Format::Nvfp4, inner, cols, 24));
    let weights = upload(&mut p, &pack::gated_fp4(&gate, &up).unwrap_or_else(|e| panic!("{e}")));
    let out = inputs(&mut p, rows, inner);
    p.call(calls::gemm_w4a4(a, weights, Finish::Gated { out, limit: f32::INFINITY }, count));
    let ((gates, _), (ups, _)) = (product(&a_values, &g, cols), product(&a_values, &u, cols));
    let expected: Vec<f64> = gates.iter().zip(&ups).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
    Case::new(format!("w4a4 gated {rows} x {inner} x {cols}"), p, move |p| {
        let found: Vec<f64> = p.get::<f32>(out.floats).into_iter().map(f64::from).collect();
        let scale = expected.iter().fold(0f64, |m, v| m.max(v.abs()));
        compare("gated", &found, &expected, 1e-5, scale * 1e-5)?;
        check_inputs(p, out, inner, &found)
    })
}

/// Rows alone and among others: the same bits.
fn invariant() -> Case {
    let (rows, columns, cols) = (75, 64, 256);
    let mut p = Program::default();
    let count = row_count(&mut p, rows, 0);
    let (a, _) = fp4_rows(&mut p, rows, cols, count);
    let (m, _) = matrix(Format::Nvfp4, columns, cols, 25);
    let weights = upload(&mut p, &pack::stack_fp4(&[&m]).unwrap_or_else(|e| panic!("{e}")));
    let ten = row_count(&mut p, 10, 0);
    let padded = a.padded as usize;
    let last = Fp4At {
        codes: a.codes.plus(65 * padded / 2),
        scales: a.scales.plus(65 * padded / 16),
        row_scales: a.row_scales.plus(65 * 4),
        ..a
    };
    let floats = |at: Address| Floats { at, stride: columns as u32, width: columns as u32 };
    let (all, few) = (p.room::<f32>(rows * columns), p.room::<f32>(10 * columns));
    p.call(calls::gemm_w4a4(a, weights, Finish::Store(floats(all)), count));
    p.call(calls::gemm_w4a4(last, weights, Finish::Store(floats(few)), ten));
    Case::new("w4a4 rows alone and among others", p, move |p| {
        if p.get::<u32>(all)[65 * columns..] == p.get::<u32>(few)[..] { Ok(()) } else { Err("bits differ".into()) }
    })
}
