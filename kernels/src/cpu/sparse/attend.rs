//! Attention over a window of rows and some compressed ones, a row at a time.

use super::rows::{PoolRows, add_scaled, dot, rotate_tail};
use crate::cpu::kv::PoolMemory;
use crate::cpu::math::exp;
use crate::cpu::moe::{NONE, PickMemory};
use crate::cpu::run::{for_rows, take};
use crate::cpu::shared::Split;
use crate::cpu::{ActMemory, Cpu, Isa};
use crate::ops::Pool;
use crate::sparse::SparseAttention;

/// A pool and where its rows are.
#[derive(Clone, Copy)]
struct Source<'a> {
    bytes: &'a [u8],
    layout: PoolRows,
}

/// Compressed rows.
struct Older<'a> {
    pool: Source<'a>,
    ratio: usize,
    picks: Option<&'a PickMemory>,
}

/// Where the rows that tokens see come from.
struct Sources<'a> {
    /// This step's.
    rows: &'a ActMemory,
    from: usize,
    earlier: Source<'a>,
    older: Option<Older<'a>>,
    window: usize,
    /// Position of the first token that has a row.
    first: usize,
    dim: usize,
    block_tokens: usize,
}

/// A row of the step.
struct Place<'a> {
    row: usize,
    position: usize,
    /// Position of its sequence's first row in this step.
    start: usize,
    table: &'a [u32],
}

impl<'a> Sources<'a> {
    fn of(
        (acts, pools, picks): (&'a [ActMemory], &'a [PoolMemory], &'a [PickMemory]),
        args: &SparseAttention,
        dim: usize,
        block_tokens: usize,
    ) -> Self {
        let bytes = |pool: Pool| pools[pool.0 as usize].lines.bytes();
        let older = args.compressed.map(|c| Older {
            pool: Source { bytes: bytes(c.pool), layout: PoolRows::new(c.store, dim, block_tokens / c.ratio) },
            ratio: c.ratio,
            picks: c.picks.map(|p| &picks[p.0 as usize]),
        });
        let layout = PoolRows::new(args.earlier.store, dim, args.earlier.ring);
        Self {
            rows: &acts[args.rows.id as usize],
            from: args.rows.from as usize,
            earlier: Source { bytes: bytes(args.earlier.pool), layout },
            older,
            window: args.window,
            first: args.first,
            dim,
            block_tokens,
        }
    }

    /// The rows that a token sees, one after another: the window's, then the compressed ones, each ascending. This order is the
    /// order of arithmetic.
    fn seen(&self, isa: Isa, at: &Place<'_>) -> Vec<f32> {
        let dim = self.dim;
        // A row before the first that counts sees itself, so that there is something to see.
        let first = (at.position + 1).saturating_sub(self.window).max(self.first).min(at.position);
        let compressed = self.older.as_ref().map_or(0, |o| o.count(at));
        let mut seen = vec![0f32; (at.position + 1 - first + compressed) * dim];
        let (window, compressed) = seen.split_at_mut((at.position + 1 - first) * dim);
        for (out, p) in window.chunks_exact_mut(dim).zip(first..) {
            if p < at.start {
                let Source { bytes, layout } = self.earlier;
                layout.read(isa, bytes, layout.in_ring(at.table, p, self.block_tokens), out);
            } else {
                let from = (at.row - (at.position - p)) * self.rows.stride + self.from;
                out.copy_from_slice(&self.rows.values[from..][..dim]);
            }
        }
        if let Some(Older { pool: Source { bytes, layout }, picks, .. }) = self.older.as_ref() {
            for (i, out) in compressed.chunks_exact_mut(dim).enumerate() {
                let i = picks.map_or(i, |p| p.ids[at.row * p.k + i] as usize);
                layout.read(isa, bytes, layout.at(at.table, i), out);
            }
        }
        seen
    }
}

impl Older<'_> {
    /// How many compressed rows a token sees.
    fn count(&self, at: &Place<'_>) -> usize {
        match self.picks {
            None => (at.position + 1) / self.ratio,
            Some(p) => p.ids[at.row * p.k..][..p.k].iter().take_while(|i| **i != NONE).count(),
        }
    }
}

pub(super) fn attend(cpu: &mut Cpu, args: &SparseAttention) {
    let dim = args.q.width() / args.heads;
    let fits = dim * args.heads == args.q.width() && args.out.width() == args.q.width() && args.rows.width() == dim;
    let tokens = cpu.limits.block_tokens;
    assert!(fits && args.earlier.ring >= args.window.min(tokens), "{args:?} does not fit together");
    let mut out = take(&mut cpu.acts, args.out);
    let sources = Sources::of((&cpu.acts, &cpu.pools, &cpu.picks), args, dim, tokens);
    let q = &cpu.acts[args.q.id as usize];
    let rope = &cpu.ropes[args.rope.0 as usize];
    let sinks = &*cpu.vectors[args.sinks.0 as usize];
    let (step, isa, stride) = (&cpu.step, cpu.isa, out.stride);
    let to = Split::new(&mut out.values);
    for_rows(&mut cpu.threads, step.tokens.len(), args.q.width() * 16, &|_, row| {
        let (position, start) = (step.positions[row] as usize, step.extent(row).start as usize);
        let seen = sources.seen(isa, &Place { row, position, start, table: step.table(row) });
        let q = &q.values[row * q.stride + args.q.from as usize..][..args.q.width()];
        // SAFETY: each row is handed out once.
        let out = unsafe { to.part(row * stride + args.out.from as usize, args.q.width()) };
        let (cos, sin) = rope.row(row);
        let back: Vec<f32> = sin.iter().map(|s| -s).collect();
        let mut weights: Vec<f32> = Vec::with_capacity(seen.len() / dim);
        for ((q, out), &sink) in q.chunks_exact(dim).zip(out.chunks_exact_mut(dim)).zip(sinks) {
            weights.clear();
            weights.extend(seen.chunks_exact(dim).map(|r| dot(isa, q, r) * args.scale));
            let most = weights.iter().fold(sink, |m, s| m.max(*s));
            let mut total = exp(sink - most);
            for w in &mut weights {
                *w = exp(*w - most);
                total += *w;
            }
            out.fill(0.0);
            for (w, r) in weights.iter().zip(seen.chunks_exact(dim)) {
                add_scaled(isa, w / total, r, out);
            }
            rotate_tail(isa, out, cos, &back);
        }
    });
    cpu.acts[args.out.id as usize] = out;
}
