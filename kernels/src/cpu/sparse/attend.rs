//! Attention over a window of rows and some compressed ones, a row at a time.

use super::rows::{PoolRows, add_scaled, dot, rotate_tail};
use crate::cpu::Cpu;
use crate::cpu::element::{Element, Plain};
use crate::cpu::math::exp;
use crate::cpu::moe::NONE;
use crate::cpu::run::{for_rows, take};
use crate::cpu::shared::Split;
use crate::sparse::SparseAttention;

pub(super) fn attend<E: Element + Plain>(cpu: &mut Cpu, args: &SparseAttention) {
    let dim = args.q.width() / args.heads;
    assert!(dim * args.heads == args.q.width() && args.out.width() == args.q.width(), "{args:?} does not fit together");
    let mut out = take(&mut cpu.acts, args.out);
    let q = &cpu.acts[args.q.id as usize];
    let rope = &cpu.ropes[args.rope.0 as usize];
    let sinks = &*cpu.vectors[args.sinks.0 as usize];
    let tokens = cpu.limits.block_tokens;
    let window = (cpu.pools[args.pool.0 as usize].lines.elements::<E>(), PoolRows::new(dim, tokens, 1));
    let compressed = args.compressed.map(|c| {
        let picks = c.picks.map(|p| &cpu.picks[p.0 as usize]);
        (cpu.pools[c.pool.0 as usize].lines.elements::<E>(), PoolRows::new(dim, tokens, c.ratio), c.ratio, picks)
    });
    let (step, isa, stride) = (&cpu.step, cpu.isa, out.stride);
    let to = Split::new(&mut out.values);
    for_rows(&mut cpu.threads, step.tokens.len(), args.q.width() * 16, &|_, row| {
        let (position, table) = (step.positions[row] as usize, step.table(row));
        // Window rows first, then compressed ones, each ascending: this order is the order of arithmetic.
        let mut seen: Vec<&[E]> = ((position + 1).saturating_sub(args.window)..=position)
            .map(|p| &window.0[window.1.at(table, p)..][..dim])
            .collect();
        if let Some((pool, layout, ratio, picks)) = compressed {
            let at = |i: usize| &pool[layout.at(table, i)..][..dim];
            match picks {
                None => seen.extend((0..(position + 1) / ratio).map(at)),
                Some(p) => {
                    let chosen = p.ids[row * p.k..][..p.k].iter().take_while(|i| **i != NONE);
                    seen.extend(chosen.map(|i| at(*i as usize)));
                }
            }
        }
        let q = &q.values[row * q.stride + args.q.from as usize..][..args.q.width()];
        // SAFETY: each row is handed out once.
        let out = unsafe { to.part(row * stride + args.out.from as usize, args.q.width()) };
        let (cos, sin) = rope.row(row);
        let back: Vec<f32> = sin.iter().map(|s| -s).collect();
        for ((q, out), &sink) in q.chunks_exact(dim).zip(out.chunks_exact_mut(dim)).zip(sinks) {
            let mut weights: Vec<f32> = seen.iter().map(|r| dot(isa, q, r) * args.scale).collect();
            let most = weights.iter().fold(sink, |m, s| m.max(*s));
            let mut total = exp(sink - most);
            for w in &mut weights {
                *w = exp(*w - most);
                total += *w;
            }
            out.fill(0.0);
            for (w, r) in weights.iter().zip(&seen) {
                add_scaled(isa, w / total, r, out);
            }
            rotate_tail(isa, out, cos, &back);
        }
    });
    cpu.acts[args.out.id as usize] = out;
}
