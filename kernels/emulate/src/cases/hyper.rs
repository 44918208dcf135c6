//! Hyper-connections against double precision.

use sluicegate_kernels::cuda::call::Floats;
use sluicegate_kernels::cuda::calls::{self, MixBy};

use super::Case;
use super::rows::row_count;
use crate::numbers::{Dice, compare};
use crate::program::Program;

const ROWS: usize = 3;
const STREAMS: usize = 4;
const WIDTH: usize = 96;
const NORM_EPS: f32 = 1e-5;
const EPS: f32 = 1e-6;
const ITERATIONS: usize = 20;

pub(super) fn hyper() -> Vec<Case> {
    vec![pre(), post(), head()]
}

fn floats(p: &mut Program, values: &[f32], width: usize) -> Floats {
    Floats { at: p.put(values), stride: width as u32, width: width as u32 }
}

fn wide(values: Vec<f32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

fn inverse_rms(x: &[f32]) -> f64 {
    let squares: f64 = x.iter().map(|&v| f64::from(v).powi(2)).sum();
    1.0 / (squares / x.len() as f64 + f64::from(NORM_EPS)).sqrt()
}

fn sigmoid(v: f64) -> f64 {
    1.0 / (1.0 + (-v).exp())
}

fn sum_of_streams(x: &[f32], weights: &[f64]) -> Vec<f64> {
    (0..WIDTH).map(|i| weights.iter().enumerate().map(|(a, w)| w * f64::from(x[a * WIDTH + i])).sum()).collect()
}

fn sinkhorn(c: &mut [f64]) {
    let (n, eps) = (STREAMS, f64::from(EPS));
    for row in c.chunks_exact_mut(n) {
        let total: f64 = row.iter().map(|v| v.exp()).sum();
        row.iter_mut().for_each(|v| *v = v.exp() / total + eps);
    }
    for round in 0..ITERATIONS {
        if round > 0 {
            for row in c.chunks_exact_mut(n) {
                let total = row.iter().sum::<f64>() + eps;
                row.iter_mut().for_each(|v| *v /= total);
            }
        }
        for b in 0..n {
            let total = (0..n).map(|a| c[a * n + b]).sum::<f64>() + eps;
            (0..n).for_each(|a| c[a * n + b] /= total);
        }
    }
}

fn mix_by(p: &mut Program, scale: &[f32], base: &[f32]) -> MixBy {
    MixBy { scale: p.put(scale), base: p.put(base), norm_eps: NORM_EPS, eps: EPS }
}

fn pre() -> Case {
    let n = STREAMS;
    let mut p = Program::default();
    let mut dice = Dice::new(51);
    let (x, m) = (dice.floats(ROWS * n * WIDTH), dice.floats(ROWS * (2 + n) * n));
    let (scale, base) = (dice.floats(3), dice.floats((2 + n) * n));
    let (mut inputs, mut mixes) = (Vec::new(), Vec::new());
    for (x, m) in x.chunks_exact(n * WIDTH).zip(m.chunks_exact((2 + n) * n)) {
        let factor = inverse_rms(x);
        let value = |i: usize, part: usize| f64::from(m[i]) * factor * f64::from(scale[part]) + f64::from(base[i]);
        let weights: Vec<f64> = (0..n).map(|i| sigmoid(value(i, 0)) + f64::from(EPS)).collect();
        mixes.extend((0..n).map(|i| 2.0 * sigmoid(value(n + i, 1))));
        let mut combination: Vec<f64> = (0..n * n).map(|i| value(2 * n + i, 2)).collect();
        sinkhorn(&mut combination);
        mixes.extend(combination);
        inputs.extend(sum_of_streams(x, &weights));
    }
    let (streams, projected) = (floats(&mut p, &x, n * WIDTH), floats(&mut p, &m, (2 + n) * n));
    let by = mix_by(&mut p, &scale, &base);
    let input = floats(&mut p, &[f32::NAN; ROWS * WIDTH], WIDTH);
    let mix = floats(&mut p, &[f32::NAN; ROWS * (STREAMS + STREAMS * STREAMS)], n + n * n);
    let count = row_count(&mut p, ROWS, 1);
    p.call(calls::hyper_pre(streams, projected, by, ITERATIONS as u32, [input, mix], count));
    Case::new("hyper_pre", p, move |p| {
        compare("mix", &wide(p.get(mix.at)), &mixes, 2e-5, 1e-6)?;
        compare("input", &wide(p.get(input.at)), &inputs, 1e-5, 1e-6)
    })
}

fn post() -> Case {
    let n = STREAMS;
    let mut p = Program::default();
    let mut dice = Dice::new(52);
    let (x, out, mix) = (dice.floats(ROWS * n * WIDTH), dice.floats(ROWS * WIDTH), dice.floats(ROWS * (n + n * n)));
    let mut expected = Vec::new();
    for row in 0..ROWS {
        let mix = &mix[row * (n + n * n)..];
        for (b, i) in (0..n).flat_map(|b| (0..WIDTH).map(move |i| (b, i))) {
            let kept = (0..n).map(|a| f64::from(mix[n + a * n + b]) * f64::from(x[(row * n + a) * WIDTH + i]));
            expected.push(kept.sum::<f64>() + f64::from(mix[b]) * f64::from(out[row * WIDTH + i]));
        }
    }
    let (streams, output) = (floats(&mut p, &x, n * WIDTH), floats(&mut p, &out, WIDTH));
    let mix = floats(&mut p, &mix, n + n * n);
    let count = row_count(&mut p, ROWS, 1);
    p.call(calls::hyper_post(output, mix, streams, count));
    Case::new("hyper_post", p, move |p| compare("streams", &wide(p.get(streams.at)), &expected, 1e-5, 1e-6))
}

fn head() -> Case {
    let n = STREAMS;
    let mut p = Program::default();
    let mut dice = Dice::new(53);
    let (x, m, base) = (dice.floats(ROWS * n * WIDTH), dice.floats(ROWS * n), dice.floats(n));
    let scale = [0.7f32];
    let mut expected = Vec::new();
    for (x, m) in x.chunks_exact(n * WIDTH).zip(m.chunks_exact(n)) {
        let factor = inverse_rms(x);
        let value = |i: usize| f64::from(m[i]) * factor * f64::from(scale[0]) + f64::from(base[i]);
        let weights: Vec<f64> = (0..n).map(|i| sigmoid(value(i)) + f64::from(EPS)).collect();
        expected.extend(sum_of_streams(x, &weights));
    }
    let (streams, projected) = (floats(&mut p, &x, n * WIDTH), floats(&mut p, &m, n));
    let by = mix_by(&mut p, &scale, &base);
    let out = floats(&mut p, &[f32::NAN; ROWS * WIDTH], WIDTH);
    let count = row_count(&mut p, ROWS, 1);
    p.call(calls::hyper_head(streams, projected, by, out, count));
    Case::new("hyper_head", p, move |p| compare("out", &wide(p.get(out.at)), &expected, 1e-5, 1e-6))
}
