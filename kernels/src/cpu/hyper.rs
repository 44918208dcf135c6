//! Hyper-connections on the CPU, a row at a time.

use super::math::{LANES, sum};
use super::run::{for_rows, take};
use super::shared::Split;
use super::{ActMemory, Cpu};
use crate::hyper::{HyperHead, HyperOps, HyperPre};
use crate::ops::Act;

/// More streams than any model has.
const MOST: usize = 16;

fn sigmoid(v: f32) -> f32 {
    1.0 / (1.0 + (-v).exp())
}

/// `rsqrt(mean(x^2) + eps)`, squares summed in sixteen lanes, then pairwise.
fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    let mut squares = [0f32; LANES];
    for chunk in x.chunks(LANES) {
        for (s, v) in squares.iter_mut().zip(chunk) {
            *s = v.mul_add(*v, *s);
        }
    }
    1.0 / (sum(squares) / x.len() as f32 + eps).sqrt()
}

fn row_of(memory: &ActMemory, act: Act, row: usize) -> &[f32] {
    &memory.values[row * memory.stride + act.from as usize..][..act.width()]
}

/// `out = sum_i weight_i * stream_i`, streams ascending.
fn weighted_sum(streams: &[f32], weights: &[f32], out: &mut [f32]) {
    let d = out.len();
    for (i, v) in out.iter_mut().enumerate() {
        *v = weights.iter().enumerate().fold(0.0, |s, (k, w)| w.mul_add(streams[k * d + i], s));
    }
}

/// The doubly stochastic combination, in place: `c[a * n + b]`.
fn sinkhorn(c: &mut [f32], n: usize, eps: f32, iterations: usize) {
    for row in c.chunks_exact_mut(n) {
        let most = row.iter().fold(f32::NEG_INFINITY, |m, v| m.max(*v));
        row.iter_mut().for_each(|v| *v = (*v - most).exp());
        let total: f32 = row.iter().sum();
        row.iter_mut().for_each(|v| *v = *v / total + eps);
    }
    let by_column = |c: &mut [f32]| {
        for b in 0..n {
            let total = (0..n).map(|a| c[a * n + b]).sum::<f32>() + eps;
            (0..n).for_each(|a| c[a * n + b] /= total);
        }
    };
    by_column(c);
    for _ in 1..iterations {
        for row in c.chunks_exact_mut(n) {
            let total = row.iter().sum::<f32>() + eps;
            row.iter_mut().for_each(|v| *v /= total);
        }
        by_column(c);
    }
}

fn pre_row(a: &HyperPre, [streams, projected, scale, base]: [&[f32]; 4], input: &mut [f32], mix: &mut [f32]) {
    let n = streams.len() / input.len();
    let factor = inverse_rms(streams, a.norm_eps);
    let m = |i: usize, part: usize| projected[i] * factor * scale[part] + base[i];
    let mut pre = [0f32; MOST];
    for i in 0..n {
        pre[i] = sigmoid(m(i, 0)) + a.eps;
        mix[i] = 2.0 * sigmoid(m(n + i, 1));
    }
    for i in 0..n * n {
        mix[n + i] = m(2 * n + i, 2);
    }
    sinkhorn(&mut mix[n..], n, a.eps, a.iterations);
    weighted_sum(streams, &pre[..n], input);
}

impl HyperOps for Cpu {
    fn hyper_pre(&mut self, a: &HyperPre) {
        let n = a.streams.width() / a.input.width();
        let fits = a.projected.width() == (2 + n) * n && a.mix.width() == n + n * n && n <= MOST;
        assert!(fits && a.streams.width() == n * a.input.width(), "{a:?} does not fit together");
        let (mut input, mut mix) = (take(&mut self.acts, a.input), take(&mut self.acts, a.mix));
        let (streams, projected) = (&self.acts[a.streams.id as usize], &self.acts[a.projected.id as usize]);
        let (scale, base) = (&*self.vectors[a.scale.0 as usize], &*self.vectors[a.base.0 as usize]);
        let rows = self.step.count(input.rows);
        let (input_stride, mix_stride) = (input.stride, mix.stride);
        let (to_input, to_mix) = (Split::new(&mut input.values), Split::new(&mut mix.values));
        for_rows(&mut self.threads, rows, a.streams.width(), &|_, row| {
            let from = [row_of(streams, a.streams, row), row_of(projected, a.projected, row), scale, base];
            // SAFETY: each row is handed out once.
            let input = unsafe { to_input.part(row * input_stride + a.input.from as usize, a.input.width()) };
            // SAFETY: as above.
            let mix = unsafe { to_mix.part(row * mix_stride + a.mix.from as usize, a.mix.width()) };
            pre_row(a, from, input, mix);
        });
        self.acts[a.input.id as usize] = input;
        self.acts[a.mix.id as usize] = mix;
    }

    fn hyper_post(&mut self, output: Act, mix: Act, streams: Act) {
        let (d, n) = (output.width(), streams.width() / output.width());
        let mut memory = take(&mut self.acts, streams);
        let (outputs, mixes) = (&self.acts[output.id as usize], &self.acts[mix.id as usize]);
        let (rows, stride) = (self.step.count(memory.rows), memory.stride);
        let to = Split::new(&mut memory.values);
        for_rows(&mut self.threads, rows, streams.width(), &|_, row| {
            let (out, mix) = (row_of(outputs, output, row), row_of(mixes, mix, row));
            // SAFETY: each row is handed out once.
            let x = unsafe { to.part(row * stride + streams.from as usize, n * d) };
            for i in 0..d {
                let mut old = [0f32; MOST];
                (0..n).for_each(|a| old[a] = x[a * d + i]);
                for b in 0..n {
                    let kept = (0..n).fold(0.0f32, |s, a| mix[n + a * n + b].mul_add(old[a], s));
                    x[b * d + i] = mix[b].mul_add(out[i], kept);
                }
            }
        });
        self.acts[streams.id as usize] = memory;
    }

    fn hyper_head(&mut self, a: &HyperHead) {
        let n = a.projected.width();
        assert!(n <= MOST && a.streams.width() == n * a.out.width(), "{a:?} does not fit together");
        let mut out = take(&mut self.acts, a.out);
        let (streams, projected) = (&self.acts[a.streams.id as usize], &self.acts[a.projected.id as usize]);
        let (scale, base) = (self.vectors[a.scale.0 as usize][0], &*self.vectors[a.base.0 as usize]);
        for row in 0..self.step.count(out.rows) {
            let (x, m) = (row_of(streams, a.streams, row), row_of(projected, a.projected, row));
            let factor = inverse_rms(x, a.norm_eps);
            let mut weights = [0f32; MOST];
            for i in 0..n {
                weights[i] = sigmoid(m[i] * factor * scale + base[i]) + a.eps;
            }
            let to = &mut out.values[row * out.stride + a.out.from as usize..][..a.out.width()];
            weighted_sum(x, &weights[..n], to);
        }
        self.acts[a.out.id as usize] = out;
    }
}
