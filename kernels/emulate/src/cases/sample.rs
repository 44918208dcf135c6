//! Sampling: every token against a plain implementation in double precision.

use sluicegate_kernels::cuda::call::{Address, Floats};
use sluicegate_kernels::cuda::calls::{self, AdjustBy, SampleWish};
use sluicegate_kernels::draw::DrawBy;

use super::Case;
use super::rows::row_count;
use crate::numbers::{Dice, compare};
use crate::program::Program;

const WIDTH: usize = 700;

pub(super) fn sample() -> Vec<Case> {
    vec![adjust(), draws()]
}

fn wish(i: usize) -> SampleWish {
    let by = DrawBy {
        temperature: [1.0, 0.7, 0.0, 1.3][i % 4],
        top_k: [0, 40, 0, 3][i / 4 % 4],
        top_p: [1.0, 0.9, 0.3][i / 2 % 3],
        min_p: [0.0, 0.05][i / 3 % 2],
        seed: 0x1234_5678_9abc_def0 ^ i as u64,
        position: i as u32 * 17,
        ..DrawBy::GREEDY
    };
    SampleWish { by, seen: (0, 0), biases: (0, 0) }
}

fn put_wishes(p: &mut Program, wishes: &[SampleWish]) -> Address {
    p.put(&wishes.iter().flat_map(SampleWish::words).collect::<Vec<u32>>())
}

fn adjust() -> Case {
    let rows = 2;
    let mut p = Program::default();
    let mut x = Dice::new(81).floats(rows * WIDTH);
    (x[9], x[11]) = (f32::NAN, f32::INFINITY);
    let seen = [5u32, 3, 2, 6, 1, 0, 5, 1, 1];
    let biases = [7u32, 1.5f32.to_bits(), 5, (-2.0f32).to_bits()];
    let mask: Vec<u32> = (0..rows * WIDTH.div_ceil(32)).map(|i| if i % 3 == 1 { 0x5555_5555 } else { !0 }).collect();
    let by = DrawBy { repetition: 1.2, frequency: 0.5, presence: 0.25, ..wish(0).by };
    let wishes = [SampleWish { by, seen: (0, 2), biases: (0, 2) }, SampleWish { by, seen: (2, 1), biases: (1, 1) }];
    let mut expected: Vec<f64> = x.iter().map(|&v| v.into()).collect();
    for (row, (out, w)) in expected.chunks_exact_mut(WIDTH).zip(&wishes).enumerate() {
        for b in biases[2 * w.biases.0 as usize..].chunks_exact(2).take(w.biases.1 as usize) {
            out[b[0] as usize] += f64::from(f32::from_bits(b[1]));
        }
        for s in seen[3 * w.seen.0 as usize..].chunks_exact(3).take(w.seen.1 as usize) {
            let v = &mut out[s[0] as usize];
            *v = if *v > 0.0 { *v / f64::from(w.by.repetition) } else { *v * f64::from(w.by.repetition) };
            if s[2] > 0 {
                *v -= f64::from(w.by.frequency) * f64::from(s[2]) + f64::from(w.by.presence);
            }
        }
        for (i, v) in out.iter_mut().enumerate() {
            let admitted = mask[row * WIDTH.div_ceil(32) + i / 32] >> (i % 32) & 1 == 1;
            *v = if admitted && !v.is_nan() { v.min(f64::from(f32::MAX)) } else { -1e300 };
        }
    }
    let logits = Floats { at: p.put(&x), stride: WIDTH as u32, width: WIDTH as u32 };
    let by = AdjustBy {
        seen: p.put(&seen),
        biases: p.put(&biases),
        mask: p.put(&mask),
        mask_stride: WIDTH.div_ceil(32) as u32,
    };
    let (wishes, count) = (put_wishes(&mut p, &wishes), row_count(&mut p, rows, 0));
    p.call(calls::adjust_logits(logits, wishes, by, count));
    Case::new("adjust_logits", p, move |p| {
        let found: Vec<f64> = p.get::<f32>(logits.at).into_iter().map(|v| f64::from(v).max(-1e300)).collect();
        compare("logit", &found, &expected, 1e-6, 1e-6)
    })
}

/// Uniform in 0..1: Philox 4x32-10 as its paper has it.
fn uniform(seed: u64, position: u32) -> f64 {
    let (mut c, mut key) = ([position, 0, 0, 0], [seed as u32, (seed >> 32) as u32]);
    for _ in 0..10 {
        let (p0, p1) = (0xD251_1F53 * u64::from(c[0]), 0xCD9E_8D57 * u64::from(c[2]));
        c = [(p1 >> 32) as u32 ^ c[1] ^ key[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ key[1], p0 as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    ((u64::from(c[0]) << 32 | u64::from(c[1])) >> 11) as f64 * 2f64.powi(-53)
}

fn draw(logits: &[f32], w: &DrawBy) -> u32 {
    let most = logits.iter().fold(f32::NEG_INFINITY, |m, &l| m.max(l));
    if most == f32::NEG_INFINITY {
        return u32::MAX;
    }
    let rank = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let mut ids: Vec<u32> = (0..logits.len() as u32).filter(|&i| logits[i as usize] > f32::NEG_INFINITY).collect();
    if w.temperature == 0.0 {
        ids.sort_by(rank);
        return ids[0];
    }
    let weight = |i: &u32| (f64::from(logits[*i as usize] - most) / f64::from(w.temperature)).exp();
    if w.top_k > 0 && (w.top_k as usize) < ids.len() {
        ids.sort_by(rank);
        ids.truncate(w.top_k as usize);
    }
    if w.top_p < 1.0 {
        ids.sort_by(rank);
        let wanted = f64::from(w.top_p) * ids.iter().map(weight).sum::<f64>();
        let mut sum = 0.0;
        let enough = ids.iter().position(|i| {
            sum += weight(i);
            sum >= wanted
        });
        ids.truncate(enough.map_or(ids.len(), |last| last + 1));
    }
    ids.retain(|i| weight(i) >= f64::from(w.min_p));
    let at = uniform(w.seed, w.position) * ids.iter().map(weight).sum::<f64>();
    let mut sum = 0.0;
    let hit = ids.iter().find(|i| {
        sum += weight(i);
        sum > at
    });
    hit.or(ids.last()).copied().unwrap_or(u32::MAX)
}

fn draws() -> Case {
    let rows = 26;
    let mut p = Program::default();
    let mut x: Vec<f32> = Dice::new(82).floats(rows * WIDTH).into_iter().map(|v| v * 6.0).collect();
    // Coarse logits, so that many are equal; a row with one candidate, its last; a row without any.
    x[4 * WIDTH..9 * WIDTH].iter_mut().for_each(|v| *v = v.round());
    // Rows of negative numbers alone, some coarse.
    x[7 * WIDTH..10 * WIDTH].iter_mut().for_each(|v| *v -= 30.0);
    x[16 * WIDTH..22 * WIDTH].iter_mut().for_each(|v| *v -= 30.0);
    x[10 * WIDTH..12 * WIDTH].fill(f32::NEG_INFINITY);
    x[10 * WIDTH + WIDTH - 1] = -3.0;
    let wishes: Vec<SampleWish> = (0..rows).map(wish).collect();
    let expected: Vec<u32> = x.chunks_exact(WIDTH).zip(&wishes).map(|(x, w)| draw(x, &w.by)).collect();
    let logits = Floats { at: p.put(&x), stride: WIDTH as u32, width: WIDTH as u32 };
    let out = p.room::<u32>(rows);
    let (wishes, count) = (put_wishes(&mut p, &wishes), row_count(&mut p, rows, 0));
    p.call(calls::sample(logits, wishes, out, count));
    Case::new("sample", p, move |p| {
        let found = p.get::<u32>(out);
        if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
    })
}
