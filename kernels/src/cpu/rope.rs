//! Rotary position embedding, and storing keys and values in their blocks.

use super::element::Element;
use super::isa::{Isa, versions};
use super::kv::BlockLayout;
use super::norm::rms_norm_in_place;
use super::shared::Split;
use crate::ops::RopePairs;

/// Frequencies, and the cosines and sines of the present step's rows.
#[derive(Debug)]
pub(crate) struct RopeTable {
    frequencies: Vec<f64>,
    factor: f64,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    pub(crate) fn new(frequencies: &[f64], factor: f64, rows: usize) -> Self {
        let zeros = vec![0.0; rows * frequencies.len()];
        Self { frequencies: frequencies.to_vec(), factor, cos: zeros.clone(), sin: zeros }
    }

    /// Prepares the angles of a step. They are computed in double precision, so far positions lose nothing.
    pub(crate) fn prepare(&mut self, positions: &[u32]) {
        let n = self.frequencies.len();
        for (row, &position) in positions.iter().enumerate() {
            for (i, f) in self.frequencies.iter().enumerate() {
                let (sin, cos) = (f64::from(position) * f).sin_cos();
                self.cos[row * n + i] = (cos * self.factor) as f32;
                self.sin[row * n + i] = (sin * self.factor) as f32;
            }
        }
    }

    /// Cosines and sines of any position.
    pub(crate) fn angles(&self, position: u32) -> (Vec<f32>, Vec<f32>) {
        let both = self.frequencies.iter().map(|f| {
            let (sin, cos) = (f64::from(position) * f).sin_cos();
            ((cos * self.factor) as f32, (sin * self.factor) as f32)
        });
        both.unzip()
    }

    /// Cosines and sines of a row.
    pub(crate) fn row(&self, row: usize) -> (&[f32], &[f32]) {
        let n = self.frequencies.len();
        (&self.cos[row * n..][..n], &self.sin[row * n..][..n])
    }
}

#[inline(always)]
fn rotate_body(head: &mut [f32], cos: &[f32], sin: &[f32], pairs: RopePairs) {
    let n = cos.len();
    match pairs {
        RopePairs::Halves => {
            let (a, b) = head[..2 * n].split_at_mut(n);
            for i in 0..n {
                let (x, y) = (a[i], b[i]);
                a[i] = x * cos[i] - y * sin[i];
                b[i] = y * cos[i] + x * sin[i];
            }
        }
        RopePairs::Interleaved => {
            for (i, pair) in head[..2 * n].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let [x, y] = *pair;
                *pair = [x * cos[i] - y * sin[i], y * cos[i] + x * sin[i]];
            }
        }
    }
}

versions! {
    /// Rotates the first `2 * cos.len()` numbers of a head.
    pub(crate) fn rotate = rotate_body(head: &mut [f32], cos: &[f32], sin: &[f32], pairs: RopePairs)
}

/// What one row's heads go through.
#[derive(Clone, Copy)]
pub(crate) struct RowArgs<'a> {
    pub(crate) isa: Isa,
    pub(crate) q_heads: usize,
    pub(crate) layout: BlockLayout,
    pub(crate) cos: &'a [f32],
    pub(crate) sin: &'a [f32],
    pub(crate) pairs: RopePairs,
    /// Gains for queries and keys, and epsilon.
    pub(crate) norm: Option<(&'a [f32], &'a [f32], f32)>,
    pub(crate) block: u32,
    pub(crate) slot: usize,
}

/// Normalises and rotates a row's queries and keys in place, and stores its keys and values.
///
/// # Safety
/// No other thread may touch this slot of the block.
pub(crate) unsafe fn append_row<E: Element>(a: RowArgs<'_>, qkv: &mut [f32], pool: &Split<'_, E>) {
    let BlockLayout { tokens, heads, head_dim } = a.layout;
    let (q, kv) = qkv.split_at_mut(a.q_heads * head_dim);
    let (k, v) = kv.split_at_mut(heads * head_dim);
    for (all, gain) in [(q, a.norm.map(|n| n.0)), (&mut *k, a.norm.map(|n| n.1))] {
        for head in all.chunks_exact_mut(head_dim) {
            if let (Some(gain), Some((_, _, eps))) = (gain, a.norm) {
                rms_norm_in_place(a.isa, head, gain, eps);
            }
            rotate(a.isa, head, a.cos, a.sin, a.pairs);
        }
    }
    for (head, (k, v)) in k.chunks_exact(head_dim).zip(v.chunks_exact(head_dim)).enumerate() {
        let keys = a.layout.keys(a.block, head) + a.slot;
        for (d, &x) in k.iter().enumerate() {
            // SAFETY: one element of the caller's slot.
            unsafe { pool.part(keys + d * tokens, 1)[0] = E::narrow(x) };
        }
        // SAFETY: the value row of the caller's slot.
        let values = unsafe { pool.part(a.layout.values(a.block, head) + a.slot * head_dim, head_dim) };
        for (to, &x) in values.iter_mut().zip(v) {
            *to = E::narrow(x);
        }
    }
}
