//! The indexer: scores the visible compressed rows and keeps the best.

use super::rows::{PoolRows, dot};
use crate::cpu::Cpu;
use crate::cpu::moe::NONE;
use crate::cpu::run::for_rows;
use crate::cpu::shared::Split;
use crate::sparse::Select;

pub(super) fn select(cpu: &mut Cpu, args: &Select) {
    let (heads, width) = (args.weights.width(), args.q.width() / args.weights.width());
    assert!(heads * width == args.q.width(), "{args:?} has no whole heads");
    let layout = PoolRows::new(args.store, width, cpu.limits.block_tokens / args.ratio);
    let pool = cpu.pools[args.pool.0 as usize].lines.bytes();
    let (q, weights) = (&cpu.acts[args.q.id as usize], &cpu.acts[args.weights.id as usize]);
    let (step, isa) = (&cpu.step, cpu.isa);
    let picks = &mut cpu.picks[args.out.0 as usize];
    let k = picks.k;
    let ids = Split::new(&mut picks.ids);
    for_rows(&mut cpu.threads, step.tokens.len(), args.q.width() * 16, &|_, row| {
        // SAFETY: each row is handed out once.
        let to = unsafe { ids.part(row * k, k) };
        to.fill(NONE);
        let visible = (step.positions[row] as usize + 1) / args.ratio;
        if visible <= k {
            (0..).zip(&mut to[..visible]).for_each(|(i, t)| *t = i);
            return;
        }
        let q = &q.values[row * q.stride + args.q.from as usize..][..args.q.width()];
        let weights = &weights.values[row * weights.stride + args.weights.from as usize..][..heads];
        let table = step.table(row);
        let mut key = vec![0f32; width];
        let mut score = |i: usize| {
            layout.read(isa, pool, layout.at(table, i), &mut key);
            let head = |(q, w): (&[f32], &f32)| w * args.factor * dot(isa, q, &key).max(0.0);
            q.chunks_exact(width).zip(weights).map(head).sum::<f32>()
        };
        let mut scored: Vec<(f32, u32)> = (0..visible).map(|i| (score(i), i as u32)).collect();
        let better = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        scored.select_nth_unstable_by(k - 1, better);
        scored[..k].sort_unstable_by_key(|s| s.1);
        to.iter_mut().zip(&scored).for_each(|(t, s)| *t = s.1);
    });
}
