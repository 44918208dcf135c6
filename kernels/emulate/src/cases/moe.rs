//! Mixtures of experts: choices against double precision, lists, and a whole layer of experts in each format.

use sluicegate_kernels::cuda::call::{Address, Floats};
use sluicegate_kernels::cuda::calls::{self, ExpertsAt, Finish, ListsAt, PicksAt, RouteBy};
use sluicegate_kernels::cuda::pack::{self, Format, Packed};
use sluicegate_kernels::moe::Score;

use super::Case;
use super::gemm::{activations, matrix, product, upload};
use super::rows::{inputs, row_count};
use crate::numbers::{Dice, bf16, compare, to_bf16};
use crate::program::Program;

pub(super) fn moe() -> Vec<Case> {
    vec![
        route_case(Score::Softmax, false, false, 8, 2),
        route_case(Score::SqrtSoftplus, true, false, 256, 6),
        route_case(Score::SqrtSoftplus, false, true, 16, 3),
        lists_case(),
    ]
}

fn scores(kind: Score, logits: &[f32]) -> Vec<f64> {
    let wide = logits.iter().map(|&z| f64::from(z));
    match kind {
        Score::SqrtSoftplus => wide.map(|z| (z.max(0.0) + (-z.abs()).exp().ln_1p()).sqrt()).collect(),
        Score::Softmax => {
            let powers: Vec<f64> = wide.map(f64::exp).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(|p| p / sum).collect()
        }
    }
}

fn route_case(score: Score, biased: bool, by_token: bool, experts: usize, k: usize) -> Case {
    let rows = 5;
    let mut p = Program::default();
    let mut dice = Dice::new(experts as u64);
    let mut logits: Vec<f32> = dice.floats(rows * experts).into_iter().map(|v| v * 4.0).collect();
    (logits[1], logits[3]) = (5.0, 5.0); // equals: the lower number wins
    let bias: Vec<f32> = dice.floats(experts);
    let tokens: Vec<u32> = (0..rows as u32).map(|r| r * 3 % 7).collect();
    let table: Vec<u32> = (0..7 * k).map(|i| ((i / k + (i % k) * 5) % experts) as u32).collect();
    let (mut ids, mut weights) = (Vec::new(), Vec::new());
    for (row, logits) in logits.chunks_exact(experts).enumerate() {
        let s = scores(score, logits);
        let mut chosen: Vec<u32> = if by_token {
            table[tokens[row] as usize * k..][..k].to_vec()
        } else {
            let key = |e: u32| s[e as usize] + if biased { f64::from(bias[e as usize]) } else { 0.0 };
            let mut order: Vec<u32> = (0..experts as u32).collect();
            order.sort_by(|a, b| key(*b).total_cmp(&key(*a)).then(a.cmp(b)));
            order[..k].to_vec()
        };
        chosen.sort_unstable();
        let sum: f64 = chosen.iter().map(|&e| s[e as usize]).sum();
        weights.extend(chosen.iter().map(|&e| s[e as usize] / sum * 1.5));
        ids.extend(chosen);
    }
    let out = PicksAt { ids: p.room::<u32>(rows * k), weights: p.room::<f32>(rows * k), k: k as u32 };
    let from = Floats { at: p.put(&logits), stride: experts as u32, width: experts as u32 };
    let by = RouteBy {
        score,
        bias: if biased { p.put(&bias) } else { Address::NULL },
        table: if by_token { p.put(&table) } else { Address::NULL },
        tokens: p.put(&tokens),
        normalize: true,
        factor: 1.5,
    };
    let count = row_count(&mut p, rows, 1);
    p.call(calls::route(from, by, out, count));
    Case::new(format!("route {experts} experts, {score:?}, by token {by_token}"), p, move |p| {
        if p.get::<u32>(out.ids) != ids {
            return Err(format!("chose {:?} instead of {ids:?}", p.get::<u32>(out.ids)));
        }
        let found: Vec<f64> = p.get::<f32>(out.weights).into_iter().map(f64::from).collect();
        compare("weight", &found, &weights, 1e-6, 0.0)
    })
}

fn put_lists(p: &mut Program, experts: usize, room: usize) -> ListsAt {
    ListsAt {
        lists: p.room::<u32>(experts * room),
        counts: p.room::<u32>(experts),
        room: room as u32,
        experts: experts as u32,
    }
}

fn lists_case() -> Case {
    let (rows, k, experts) = (70, 2, 5);
    let mut p = Program::default();
    let ids: Vec<u32> = (0..rows * k).map(|i| ((i * i / 3 + i) % experts) as u32).collect();
    let picks = PicksAt { ids: p.put(&ids), weights: Address::NULL, k: k as u32 };
    let out = put_lists(&mut p, experts, rows * k);
    let count = row_count(&mut p, rows, 0);
    p.call(calls::list_experts(picks, out, count));
    Case::new("list_experts", p, move |p| {
        let (lists, counts) = (p.get::<u32>(out.lists), p.get::<u32>(out.counts));
        for (e, &count) in counts.iter().enumerate() {
            let expected: Vec<u32> = (0..ids.len() as u32).filter(|&i| ids[i as usize] == e as u32).collect();
            if count as usize != expected.len() || lists[e * rows * k..][..expected.len()] != expected[..] {
                return Err(format!("expert {e} has the wrong entries"));
            }
        }
        Ok(())
    })
}

/// Weights of experts side by side, and their values.
fn put_experts(p: &mut Program, all: &[Packed]) -> ExpertsAt {
    let join = |of: fn(&Packed) -> &Vec<u8>| all.iter().flat_map(of).copied().collect::<Vec<u8>>();
    let alpha: Vec<f32> = all.iter().flat_map(|e| &e.alpha).copied().collect();
    let joined = Packed { codes: join(|e| &e.codes), scales: join(|e| &e.scales), alpha, ..all[0].clone() };
    ExpertsAt {
        first: upload(p, &joined),
        code_stride: all[0].codes.len() as u32,
        scale_stride: all[0].scales.len() as u32,
        factor_stride: all[0].alpha.len() as u32,
    }
}

/// A layer: each row goes through two of three experts. One has no rows, one more than sixteen.
pub(super) fn layer(format: Format) -> Case {
    let (rows, k, experts, hidden, inner) = (20, 2, 4, 64, 40);
    let mut p = Program::default();
    let (x, x_values) = activations(&mut p, rows, hidden, 31);
    let ids: Vec<u32> = (0..rows).flat_map(|r| if r % 3 == 0 { [0, 3] } else { [0, 1] }).collect();
    let weights = Dice::new(32).floats(rows * k);
    let made: Vec<_> = (0..experts as u64)
        .map(|e| {
            let gate = matrix(format, inner, hidden, 40 + 3 * e);
            (
                gate,
                matrix(format, inner, hidden, 41 + 3 * e),
                matrix(format, hidden, inner.next_multiple_of(16), 42 + 3 * e),
            )
        })
        .collect();
    let packed = |r: Result<Packed, _>| r.unwrap_or_else(|e: sluicegate_kernels::tensor::BuildError| panic!("{e}"));
    let gates: Vec<Packed> = made.iter().map(|(g, u, _)| packed(pack::gated(&g.0, &u.0))).collect();
    let downs: Vec<Packed> = made.iter().map(|(_, _, d)| packed(pack::stack(&[&d.0]))).collect();
    let (gate_up, down) = (put_experts(&mut p, &gates), put_experts(&mut p, &downs));
    let picks = PicksAt { ids: p.put(&ids), weights: p.put(&weights), k: k as u32 };
    let lists = put_lists(&mut p, experts, rows);
    let count = row_count(&mut p, rows, 3);
    let middle = inputs(&mut p, rows * k, inner);
    let results = Floats { at: p.room::<f32>(rows * k * hidden), stride: hidden as u32, width: hidden as u32 };
    let out = Floats { at: p.put(&vec![0.25f32; rows * hidden]), ..results };
    p.call(calls::list_experts(picks, lists, count));
    let gated = Finish::Gated { out: middle, limit: f32::INFINITY };
    p.call(calls::gemm_experts(x, gate_up, gated, lists, k as u32, count));
    p.call(calls::gemm_experts(middle, down, Finish::Store(results), lists, 1, count));
    p.call(calls::combine_experts(results.at, picks, out, count));
    let padded = inner.next_multiple_of(16);
    let mut expected = vec![0.25f64; rows * hidden];
    for (entry, &e) in ids.iter().enumerate() {
        let (g, u, d) = &made[e as usize];
        let x = &x_values[entry / k * hidden..][..hidden];
        let (gates, ups) = (product(x, &g.1, hidden).0, product(x, &u.1, hidden).0);
        let mut middle: Vec<f64> =
            gates.iter().zip(&ups).map(|(g, u)| bf16(to_bf16((g / (1.0 + (-g).exp()) * u) as f32))).collect();
        middle.resize(padded, 0.0);
        for (to, v) in expected[entry / k * hidden..].iter_mut().zip(product(&middle, &d.1, padded).0) {
            *to += f64::from(weights[entry]) * v;
        }
    }
    Case::new(format!("experts in {format:?}"), p, move |p| {
        let found: Vec<f64> = p.get::<f32>(out.at).into_iter().map(f64::from).collect();
        let scale = expected.iter().fold(0f64, |m, v| m.max(v.abs()));
        // A middle number on the edge between two bf16 numbers may fall either way.
        compare("out", &found, &expected, 1e-3, scale * 1e-3)
    })
}
