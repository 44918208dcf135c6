//! Experts on the CPU: each expert's rows are gathered and go through its linears together.

use super::Cpu;
use super::operand::OperandMemory;
use super::shared::Split;
use crate::moe::{Experts, MoeOps, Picks, Route, RunExperts, Score, TokenExperts};
use crate::ops::{Linear, Rows};

/// Memory of choices.
#[derive(Debug)]
pub(crate) struct PickMemory {
    pub(crate) k: usize,
    pub(crate) ids: Vec<u32>,
    pub(crate) weights: Vec<f32>,
}

/// Nothing was chosen.
pub(crate) const NONE: u32 = u32::MAX;

/// Experts, and room for the rows of one of them.
#[derive(Debug)]
pub(crate) struct ExpertMemory {
    pairs: Vec<(Linear, Linear)>,
    gathered: OperandMemory,
    inner: OperandMemory,
    /// Rows and weights of the expert at work.
    rows: Vec<(u32, f32)>,
}

impl MoeOps for Cpu {
    fn picks(&mut self, k: usize) -> Picks {
        let n = self.limits.rows * k;
        self.picks.push(PickMemory { k, ids: vec![NONE; n], weights: vec![0.0; n] });
        Picks(self.picks.len() as u32 - 1)
    }

    fn token_experts(&mut self, ids: &[u32], k: usize) -> TokenExperts {
        self.token_experts.push((k, ids.into()));
        TokenExperts(self.token_experts.len() as u32 - 1)
    }

    fn experts(&mut self, pairs: &[(Linear, Linear)]) -> Experts {
        let stack = |l: Linear| &self.linears[l.0 as usize];
        let room = |of: &dyn Fn(&(Linear, Linear)) -> Linear| {
            let parts = pairs.iter().flat_map(|p| &stack(of(p)).parts);
            let cells = parts.clone().any(super::linear::Part::reads_cells);
            let floats = parts.clone().any(|p| !p.reads_cells());
            OperandMemory::new(Rows::Batch, self.limits.rows, stack(of(&pairs[0])).cols, floats, cells)
        };
        let (gathered, inner) = (room(&|p| p.0), room(&|p| p.1));
        for (gate_up, down) in pairs {
            let (g, d) = (stack(*gate_up), stack(*down));
            let fits = g.cols == gathered.cols && g.rows() == 2 * d.cols && d.cols == inner.cols;
            assert!(fits && d.rows() == stack(pairs[0].1).rows(), "experts of different shapes");
        }
        let rows = Vec::with_capacity(self.limits.rows);
        self.experts.push(ExpertMemory { pairs: pairs.to_vec(), gathered, inner, rows });
        Experts(self.experts.len() as u32 - 1)
    }

    fn route(&mut self, args: &Route) {
        let (logits, columns) = Self::view(&self.acts, args.logits);
        let bias = args.bias.map(|b| &*self.vectors[b.0 as usize]);
        let table = args.by_token.map(|t| &self.token_experts[t.0 as usize]);
        let picks = &mut self.picks[args.out.0 as usize];
        let mut scores = Vec::new();
        let mut order: Vec<u32> = Vec::new();
        for (row, &token) in self.step.tokens.iter().enumerate() {
            score(args.score, &logits.values[row * logits.stride..][columns.clone()], &mut scores);
            let ids = &mut picks.ids[row * picks.k..][..picks.k];
            match table {
                Some((k, table)) => ids.copy_from_slice(&table[token as usize * k..][..*k]),
                None => {
                    let key = |e: u32| scores[e as usize] + bias.map_or(0.0, |b| f64::from(b[e as usize]));
                    order.clear();
                    order.extend(0..scores.len() as u32);
                    order.sort_by(|a, b| key(*b).total_cmp(&key(*a)).then(a.cmp(b)));
                    ids.copy_from_slice(&order[..picks.k]);
                }
            }
            ids.sort_unstable();
            let sum: f64 = if args.normalize { ids.iter().map(|e| scores[*e as usize]).sum() } else { 1.0 };
            for (w, e) in picks.weights[row * picks.k..].iter_mut().zip(&*ids) {
                *w = (scores[*e as usize] / sum * f64::from(args.factor)) as f32;
            }
        }
    }

    fn run_experts(&mut self, args: &RunExperts) {
        let mut out = super::run::take(&mut self.acts, args.out);
        let x = &self.operands[args.x.0 as usize];
        let picks = &self.picks[args.picks.0 as usize];
        let memory = &mut self.experts[args.experts.0 as usize];
        let count = self.step.tokens.len();
        let (stride, from) = (out.stride, args.out.from as usize);
        for (e, (gate_up, down)) in memory.pairs.iter().enumerate() {
            memory.rows.clear();
            let chosen = picks.ids[..count * picks.k].iter().zip(&picks.weights).enumerate();
            let chosen = chosen.filter(|(_, (id, _))| **id == e as u32);
            memory.rows.extend(chosen.map(|(i, (_, w))| ((i / picks.k) as u32, *w)));
            if memory.rows.is_empty() {
                continue;
            }
            let n = memory.rows.len();
            memory.gathered.gather(x, count, memory.rows.iter().map(|r| r.0 as usize));
            let (gate_up, down) = (&self.linears[gate_up.0 as usize], &self.linears[down.0 as usize]);
            let sink = memory.inner.sink(self.isa, n);
            let mut looper = Self::looper(self.isa, &mut self.threads, &mut self.scratch);
            looper.gated(gate_up, memory.gathered.input(n), args.limit, &|place, pairs| {
                for (row, pair) in (place.row..).zip(pairs) {
                    // SAFETY: each (row, pair of tiles) is handed out once.
                    unsafe { sink.put(row, place.at, &pair[..place.width]) };
                }
            });
            let to = Split::new(&mut out.values);
            let rows = &memory.rows;
            looper.multiply(down, memory.inner.input(n), &|place, columns| {
                for ((row, weight), column) in rows[place.row..].iter().zip(columns) {
                    // SAFETY: an expert has each row once, and each (row, tile) is handed out once.
                    let to = unsafe { to.part(*row as usize * stride + from + place.at, place.width) };
                    to.iter_mut().zip(column).for_each(|(t, v)| *t += weight * v);
                }
            });
        }
        self.acts[args.out.id as usize] = out;
    }

    fn read_picks(&self, picks: Picks) -> (&[u32], &[f32]) {
        let p = &self.picks[picks.0 as usize];
        let n = self.step.tokens.len() * p.k;
        (&p.ids[..n], &p.weights[..n])
    }
}

/// In double precision: there are few, and a rounding that flips a choice changes everything after it.
fn score(kind: Score, logits: &[f32], out: &mut Vec<f64>) {
    out.clear();
    let logits = logits.iter().map(|l| f64::from(*l));
    match kind {
        Score::SqrtSoftplus => out.extend(logits.map(|z| (z.max(0.0) + (-z.abs()).exp().ln_1p()).sqrt())),
        Score::Softmax => {
            let most = logits.clone().fold(f64::NEG_INFINITY, f64::max);
            out.extend(logits.map(|z| (z - most).exp()));
            let sum: f64 = out.iter().sum();
            out.iter_mut().for_each(|v| *v /= sum);
        }
    }
}
