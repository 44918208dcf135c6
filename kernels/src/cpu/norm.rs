//! RMS norm.

use super::isa::versions;
use super::math::{LANES, sum};

#[inline(always)]
fn rms_norm_body(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) {
    let mut squares = [0f32; LANES];
    let (whole, rest) = x.as_chunks::<LANES>();
    for chunk in whole {
        for i in 0..LANES {
            squares[i] = chunk[i].mul_add(chunk[i], squares[i]);
        }
    }
    for (s, v) in squares.iter_mut().zip(rest) {
        *s = v.mul_add(*v, *s);
    }
    let factor = 1.0 / (sum(squares) / x.len() as f32 + eps).sqrt();
    for ((o, v), g) in out.iter_mut().zip(x).zip(gain) {
        *o = v * factor * g;
    }
}

versions! {
    /// `out = x * rsqrt(mean(x^2) + eps) * gain`; squares are summed in sixteen lanes, then pairwise.
    pub(crate) fn rms_norm = rms_norm_body(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32])
}

#[inline(always)]
fn rms_norm_in_place_body(x: &mut [f32], gain: &[f32], eps: f32) {
    let mut squares = [0f32; LANES];
    for chunk in x.chunks(LANES) {
        for (s, v) in squares.iter_mut().zip(chunk) {
            *s = v.mul_add(*v, *s);
        }
    }
    let factor = 1.0 / (sum(squares) / x.len() as f32 + eps).sqrt();
    for (v, g) in x.iter_mut().zip(gain) {
        *v = *v * factor * g;
    }
}

versions! {
    /// The same in place, for a head.
    pub(crate) fn rms_norm_in_place = rms_norm_in_place_body(x: &mut [f32], gain: &[f32], eps: f32)
}
