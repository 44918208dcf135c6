//! The indexer and compressed sparse attention against double precision, over rows in every number format.

use sluicegate_kernels::cuda::call::{Address, Floats};
use sluicegate_kernels::cuda::calls::{self, PicksAt, RingPlace, RowsPlace, ScoresAt, SparseAt};
use sluicegate_kernels::rows::RowStore;

use super::Case;
use super::rope::Steps;
use super::sparse::{Angles, BF16, BLOCK, DIM, F32, FP8, WINDOW, code, last_of_block, put_step, rotate, steps, wide};
use crate::numbers::{Dice, compare};
use crate::program::Program;

pub(super) fn attend() -> Vec<Case> {
    let mut cases: Vec<Case> = [BF16, RowStore::Fp8Row, RowStore::Fp4].map(|store| select(4, store)).into();
    cases.push(select(40, BF16));
    cases.push(attention(F32, None));
    cases.push(attention(BF16, Some(false)));
    cases.extend([F32, BF16, FP8].map(|store| attention(store, Some(true))));
    cases
}

/// Stored rows; what nobody wrote is all ones.
struct Kept {
    store: RowStore,
    bytes: Vec<u8>,
}

impl Kept {
    fn new(store: RowStore, rows: usize) -> Self {
        Self { store, bytes: vec![0xff; rows * store.row_bytes(DIM)] }
    }

    fn put(&mut self, at: usize, row: &[f32]) {
        let n = self.store.row_bytes(DIM);
        self.store.write(row, &mut self.bytes[at * n..][..n]);
    }

    fn get(&self, at: usize) -> Vec<f32> {
        let n = self.store.row_bytes(DIM);
        let mut row = vec![0.0; DIM];
        self.store.read(&self.bytes[at * n..][..n], &mut row);
        row
    }
}

fn far_row(steps: &Steps, row: usize, i: usize, ratio: usize) -> usize {
    let (block, slot) = steps.place(row, i * ratio);
    block * (BLOCK / ratio) + slot / ratio
}

/// Compressed rows of every sequence, as many as its last row of the step sees.
fn far_pool(steps: &Steps, ratio: usize, store: RowStore, dice: &mut Dice) -> Kept {
    let mut pool = Kept::new(store, steps.blocks * (BLOCK / ratio));
    for row in 0..steps.positions.len() {
        if steps.positions[row] + 1 == steps.ends[row] {
            let visible = (steps.positions[row] as usize + 1) / ratio;
            (0..visible).for_each(|i| pool.put(far_row(steps, row, i, ratio), &dice.floats(DIM)));
        }
    }
    pool
}

fn ring_row(steps: &Steps, row: usize, position: usize) -> usize {
    let (block, slot) = steps.place(row, position);
    block * WINDOW + slot % WINDOW
}

/// What blocks keep of the tokens in front of this step.
fn ring_pool(steps: &Steps, store: RowStore, dice: &mut Dice) -> Kept {
    let mut pool = Kept::new(store, steps.blocks * WINDOW);
    for row in 0..steps.positions.len() {
        let start = steps.starts[row] as usize;
        for position in (0..start).filter(|&p| last_of_block(p, start) - p < WINDOW) {
            if steps.positions[row] == steps.starts[row] {
                pool.put(ring_row(steps, row, position), &dice.floats(DIM));
            }
        }
    }
    pool
}

fn floats(at: Address, width: usize) -> Floats {
    Floats { at, stride: width as u32, width: width as u32 }
}

fn select(k: usize, store: RowStore) -> Case {
    let (heads, ratio, steps) = (3, 2, steps());
    let rows = steps.positions.len();
    let mut p = Program::default();
    let mut dice = Dice::new(63 + k as u64);
    let (q, weights) = (dice.floats(rows * heads * DIM), dice.floats(rows * heads));
    let mut pool = far_pool(&steps, ratio, store, &mut dice);
    // Equal scores, of which the lower number wins.
    let best = pool.get(far_row(&steps, 0, 9, ratio));
    for twin in [3, 12, 13, 17] {
        pool.put(far_row(&steps, 0, twin, ratio), &best);
    }
    let value = |row: usize, i: usize| {
        let key = pool.get(far_row(&steps, row, i, ratio));
        let head = |h: usize| {
            let q = &q[(row * heads + h) * DIM..][..DIM];
            let dot: f64 = q.iter().zip(&key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
            f64::from(weights[row * heads + h]) * 0.5 * dot.max(0.0)
        };
        (0..heads).map(head).sum::<f64>()
    };
    let expected: Vec<Vec<f64>> =
        (0..rows).map(|r| (0..(steps.positions[r] as usize + 1) / ratio).map(|i| value(r, i)).collect()).collect();
    let room = 40;
    let (q, weights) = (floats(p.put(&q), heads * DIM), floats(p.put(&weights), heads));
    let from =
        RowsPlace { pool: p.bytes(pool.bytes), store: code(store), ratio: ratio as u32, block_tokens: BLOCK as u32 };
    let scores = ScoresAt { at: p.room::<f32>(rows * room), room: room as u32 };
    let out = PicksAt { ids: p.room::<u32>(rows * k), weights: Address::NULL, k: k as u32 };
    let step = put_step(&mut p, &steps, 1);
    calls::select(q, weights, 0.5, from, (scores, out), step).into_iter().for_each(|c| p.call(c));
    Case::new(format!("select {k} of {store:?}"), p, move |p| {
        let (found, ids) = (p.get::<f32>(scores.at), p.get::<u32>(out.ids));
        for (row, expected) in expected.iter().enumerate() {
            check_choice(&found[row * room..], expected, &ids[row * k..][..k])
                .map_err(|e| format!("row {row}: {e}"))?;
        }
        Ok(())
    })
}

/// Scores are close to the exact ones; the choice is exact for the scores as they are.
fn check_choice(found: &[f32], expected: &[f64], ids: &[u32]) -> Result<(), String> {
    let mut order: Vec<u32> = (0..expected.len() as u32).collect();
    if expected.len() > ids.len() {
        compare("score", &wide(found[..expected.len()].to_vec()), expected, 1e-5, 1e-5)?;
        order.sort_by(|&a, &b| found[b as usize].total_cmp(&found[a as usize]).then(a.cmp(&b)));
        order.truncate(ids.len());
        order.sort_unstable();
    }
    order.resize(ids.len(), u32::MAX);
    if ids == order { Ok(()) } else { Err(format!("{ids:?} instead of {order:?}")) }
}

/// Every third visible row.
fn some_picks(steps: &Steps, ratio: usize, k: usize) -> Vec<u32> {
    let mut picks = vec![u32::MAX; steps.positions.len() * k];
    for (row, picks) in picks.chunks_exact_mut(k).enumerate() {
        let visible = (steps.positions[row] + 1) / ratio as u32;
        picks.iter_mut().zip((0..visible).step_by(3)).for_each(|(to, i)| *to = i);
    }
    picks
}

struct Scene {
    steps: Steps,
    heads: usize,
    q: Vec<f32>,
    sinks: Vec<f32>,
    rows: Vec<f32>,
    near: Kept,
    far: Kept,
    angles: Angles,
}

impl Scene {
    /// Result of one head of one row that sees these compressed rows.
    fn result(&self, row: usize, head: usize, far: &[usize]) -> Vec<f64> {
        let (position, start) = (self.steps.positions[row] as usize, self.steps.starts[row] as usize);
        let near = ((position + 1).saturating_sub(WINDOW)..=position).map(|t| {
            if t < start {
                self.near.get(ring_row(&self.steps, row, t))
            } else {
                self.rows[(row - (position - t)) * DIM..][..DIM].to_vec()
            }
        });
        let seen: Vec<Vec<f64>> = near.chain(far.iter().map(|&at| self.far.get(at))).map(wide).collect();
        let q = &self.q[(row * self.heads + head) * DIM..][..DIM];
        let score = |r: &Vec<f64>| r.iter().zip(q).map(|(r, &q)| r * f64::from(q)).sum::<f64>() * 0.2;
        let weights: Vec<f64> = seen.iter().map(|r| score(r).exp()).collect();
        let total = weights.iter().sum::<f64>() + f64::from(self.sinks[head]).exp();
        let mut out: Vec<f64> =
            (0..DIM).map(|d| seen.iter().zip(&weights).map(|(r, w)| r[d] * w / total).sum()).collect();
        let (c, s) = self.angles.row(row);
        rotate(&mut out, c, s, -1.0);
        out
    }
}

/// Without compressed rows, with all of them, or with picked ones.
fn attention(store: RowStore, picked: Option<bool>) -> Case {
    let (heads, ratio, k, steps) = (3, 2, 6, steps());
    let rows = steps.positions.len();
    let mut p = Program::default();
    let mut dice = Dice::new(66);
    let picks = some_picks(&steps, ratio, k);
    let scene = Scene {
        heads,
        q: dice.floats(rows * heads * DIM),
        sinks: dice.floats(heads),
        rows: dice.floats(rows * DIM),
        near: ring_pool(&steps, store, &mut dice),
        far: far_pool(&steps, ratio, store, &mut dice),
        angles: Angles::new(rows, &mut dice),
        steps,
    };
    let chosen = |row: usize| -> Vec<usize> {
        let visible = (scene.steps.positions[row] as usize + 1) / ratio;
        let ids: Vec<usize> = match picked {
            None => Vec::new(),
            Some(false) => (0..visible).collect(),
            Some(true) => picks[row * k..][..k].iter().filter(|&&i| i != u32::MAX).map(|&i| i as usize).collect(),
        };
        ids.into_iter().map(|i| far_row(&scene.steps, row, i, ratio)).collect()
    };
    let all = (0..rows).flat_map(|row| (0..heads).map(move |head| (row, head)));
    let expected: Vec<f64> = all.flat_map(|(row, head)| scene.result(row, head, &chosen(row))).collect();
    let block_tokens = BLOCK as u32;
    let far = RowsPlace { pool: p.bytes(scene.far.bytes), store: code(store), ratio: ratio as u32, block_tokens };
    let picks = PicksAt { ids: p.put(&picks), weights: Address::NULL, k: k as u32 };
    let args = SparseAt {
        q: floats(p.put(&scene.q), heads * DIM),
        heads: heads as u32,
        scale: 0.2,
        window: WINDOW as u32,
        rows: floats(p.put(&scene.rows), DIM),
        earlier: RingPlace { pool: p.bytes(scene.near.bytes), store: code(store), ring: WINDOW as u32, block_tokens },
        far: picked.map(|picked| (far, picked.then_some(picks))),
        most_far: 40,
        sinks: p.put(&scene.sinks),
        rope: scene.angles.put(&mut p),
        out: floats(p.room::<f32>(rows * heads * DIM), heads * DIM),
    };
    let step = put_step(&mut p, &scene.steps, 1);
    p.call(calls::sparse_attention(&args, step));
    Case::new(format!("sparse_attention over {store:?}, picked {picked:?}"), p, move |p| {
        compare("out", &wide(p.get(args.out.at)), &expected, 2e-5, 2e-6)
    })
}
