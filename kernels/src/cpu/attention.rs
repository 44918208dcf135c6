//! Causal attention over paged keys and values: one row and one KV head at a time, positions ascending in steps of 16,
//! so that nothing but the row's own sequence decides the order of arithmetic.

use super::element::Element;
use super::isa::{Isa, prefetch, versions};
use super::kv::BlockLayout;
use super::math::{LANES, Lanes, exp, max, sum};
use super::memory::LINE;

/// Positions that a softmax step covers; block sizes are multiples of it.
pub(crate) const STEP: usize = LANES;

/// The cached part of one row's sequence.
#[derive(Clone, Copy)]
pub(crate) struct Cached<'a, E> {
    pub(crate) pool: &'a [E],
    pub(crate) layout: BlockLayout,
    pub(crate) table: &'a [u32],
    /// Positions that the row sees: its own and all before.
    pub(crate) len: usize,
    pub(crate) head: usize,
    /// Block and KV head that are attended to next, if any.
    pub(crate) next: Option<(u32, usize)>,
}

impl<E: Element> Cached<'_, E> {
    /// Has what comes after the step at `first` on its way from memory: sequences are many and their blocks anywhere, so that no
    /// processor guesses where the next one is.
    #[inline(always)]
    fn fetch_behind(&self, first: usize) {
        let (at, tokens) = (first + STEP, self.layout.tokens);
        match self.table.get(at / tokens) {
            Some(&block) if at < self.len => self.fetch((block, self.head), at % tokens),
            _ => self.next.into_iter().for_each(|next| self.fetch(next, 0)),
        }
    }

    /// Asks for the keys and values of a step.
    #[inline(always)]
    fn fetch(&self, (block, head): (u32, usize), within: usize) {
        let (dim, tokens, line) = (self.layout.head_dim, self.layout.tokens, LINE / size_of::<E>());
        let keys = self.layout.keys(block, head) + within;
        let values = self.layout.values(block, head) + within * dim;
        let apart = if tokens < line { line / tokens } else { 1 };
        for d in (0..dim).step_by(apart) {
            prefetch(self.pool, keys + d * tokens);
        }
        for at in (0..STEP * dim).step_by(line) {
            prefetch(self.pool, values + at);
        }
    }
}

/// Attends with the query heads that share a KV head: `q` and `out` hold them side by side.
pub(crate) fn attend<E: Element>(isa: Isa, cached: Cached<'_, E>, scale: f32, q: &[f32], out: &mut [f32]) {
    let dim = cached.layout.head_dim;
    let mut done = 0;
    // Heads are independent; groups only share loads.
    while done < q.len() / dim {
        let q = &q[done * dim..];
        let out = &mut out[done * dim..];
        let n = match q.len() / dim {
            1 => heads(isa, cached, scale, q, out, Group::<1> { short: 0 }),
            2 => heads(isa, cached, scale, q, out, Group::<2> { short: 0 }),
            3 => heads(isa, cached, scale, q, out, Group::<3> { short: 0 }),
            _ => heads(isa, cached, scale, q, out, Group::<4> { short: 0 }),
        };
        done += n;
    }
}

/// Attends for two rows that follow each other and take equally many steps, with up to three heads each; `cached` is what the second
/// sees. `q` and `out` hold the heads of the first, then those of the second.
pub(crate) fn attend_two<E: Element>(isa: Isa, cached: Cached<'_, E>, scale: f32, q: &[f32], out: &mut [f32]) {
    match q.len() / cached.layout.head_dim {
        2 => heads(isa, cached, scale, q, out, Group::<2> { short: 1 }),
        4 => heads(isa, cached, scale, q, out, Group::<4> { short: 2 }),
        6 => heads(isa, cached, scale, q, out, Group::<6> { short: 3 }),
        n => panic!("{n} heads of two rows"),
    };
}

/// `G` heads that are computed together.
#[derive(Clone, Copy)]
struct Group<const G: usize> {
    /// So many of them, at the front, see one position less than the others.
    short: usize,
}

versions! {
    fn heads = heads_body [E: Element, const G: usize]
        (cached: Cached<'_, E>, scale: f32, q: &[f32], out: &mut [f32], group: Group<G>) -> usize
}

#[inline(always)]
fn heads_body<E: Element, const G: usize>(
    cached: Cached<'_, E>,
    scale: f32,
    q: &[f32],
    out: &mut [f32],
    Group { short }: Group<G>,
) -> usize {
    let Cached { pool, layout, table, len, head, .. } = cached;
    let (dim, tokens) = (layout.head_dim, layout.tokens);
    let out = &mut out[..G * dim];
    out.fill(0.0);
    let mut top = [f32::NEG_INFINITY; G];
    let mut total = [0f32; G];
    for first in (0..len).step_by(STEP) {
        let (block, within) = (table[first / tokens], first % tokens);
        let seen = STEP.min(len - first);
        let by_all = if short > 0 { STEP.min(len - 1 - first) } else { seen };
        let keys = &pool[layout.keys(block, head)..][..dim * tokens];
        let values = &pool[layout.values(block, head) + within * dim..][..seen * dim];
        // Two rows of a prompt come after others, which read the same.
        if short == 0 {
            cached.fetch_behind(first);
        }
        let scores = scores::<E, G>(keys, tokens, within, q, dim);
        let mut weights = [[0f32; STEP]; G];
        for g in 0..G {
            let mut masked = [f32::NEG_INFINITY; STEP];
            let sees = if g < short { by_all } else { seen };
            for t in 0..STEP {
                masked[t] = scores[g][t] * scale;
            }
            if sees < STEP {
                masked[sees..].fill(f32::NEG_INFINITY);
            }
            let best = max(masked);
            let new = if best > top[g] { best } else { top[g] };
            let fade = exp(top[g] - new);
            for t in 0..STEP {
                weights[g][t] = exp(masked[t] - new);
            }
            total[g] = total[g].mul_add(fade, sum(weights[g]));
            top[g] = new;
            for o in &mut out[g * dim..][..dim] {
                *o *= fade;
            }
        }
        accumulate::<E, G>(&values[..by_all * dim], dim, &weights, out);
        for (value, t) in values[by_all * dim..].chunks_exact(dim).zip(by_all..) {
            for g in short..G {
                for (o, v) in out[g * dim..][..dim].iter_mut().zip(value) {
                    *o = v.widen().mul_add(weights[g][t], *o);
                }
            }
        }
    }
    for g in 0..G {
        let inverse = 1.0 / total[g];
        for o in &mut out[g * dim..][..dim] {
            *o *= inverse;
        }
    }
    G
}

#[inline(always)]
fn widen<E: Element>(v: &[E; LANES]) -> Lanes {
    let mut wide = [0f32; LANES];
    for i in 0..LANES {
        wide[i] = v[i].widen();
    }
    wide
}

/// Sixteen scores a head: dimensions ascending.
#[inline(always)]
fn scores<E: Element, const G: usize>(keys: &[E], tokens: usize, within: usize, q: &[f32], dim: usize) -> [Lanes; G] {
    let mut scores = [[0f32; STEP]; G];
    for d in 0..dim {
        let Some(k) = keys[d * tokens + within..].first_chunk::<STEP>() else { break };
        let k = widen(k);
        for g in 0..G {
            let v = q[g * dim + d];
            for t in 0..STEP {
                scores[g][t] = k[t].mul_add(v, scores[g][t]);
            }
        }
    }
    scores
}

/// Adds the weighted values: positions ascending.
#[inline(always)]
fn accumulate<E: Element, const G: usize>(values: &[E], dim: usize, weights: &[Lanes; G], out: &mut [f32]) {
    for from in (0..dim).step_by(LANES) {
        let mut acc = [[0f32; LANES]; G];
        for g in 0..G {
            acc[g].copy_from_slice(&out[g * dim + from..][..LANES]);
        }
        for (t, row) in values.chunks_exact(dim).enumerate() {
            let Some(v) = row[from..].first_chunk::<LANES>() else { break };
            let v = widen(v);
            for g in 0..G {
                for i in 0..LANES {
                    acc[g][i] = v[i].mul_add(weights[g][t], acc[g][i]);
                }
            }
        }
        for g in 0..G {
            out[g * dim + from..][..LANES].copy_from_slice(&acc[g]);
        }
    }
}
