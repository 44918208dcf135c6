//! A device whose "model" is a hash: each row's logits depend on every token before it, read back through the blocks and
//! the slot that the plan names, so that a wrong, stale, shared or lost block changes the output.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_backend::api::GenerateRequest;
use sluicegate_backend::draft::{Drafter, Wanted};
use sluicegate_backend::exec::{
    CacheReader, CacheSpec, Capacity, ExecError, Executor, ModelSpec, Plan, PlanSequence, PoolSpec, SampleRow, Sampled,
    StateSpec, Watch,
};
use sluicegate_backend::sample::{Scratch, sample};

pub(crate) const VOCAB: u32 = 97;
pub(crate) const BLOCK: usize = 4;
const ROW: usize = 8;

/// What goes wrong, and at which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    BadPlan(usize),
    Device(usize),
    Panic(usize),
    /// A byte of block 0 changes.
    Corrupt(usize),
}

pub(crate) struct HashDevice {
    spec: ModelSpec,
    capacity: Capacity,
    /// The first layer's: one row a token. The second's: one row a block, that digests the block's rows.
    rows: Vec<u8>,
    digests: Vec<u8>,
    states: Vec<u64>,
    pub(crate) delay: Duration,
    /// While it says so, a step waits between its layers.
    pub(crate) is_held: Option<Box<dyn Fn() -> bool + Send>>,
    pub(crate) fault: Option<Fault>,
    pub(crate) steps: Arc<AtomicUsize>,
    scratch: Scratch,
}

pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.rotate_left(23).wrapping_add(b).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

fn logits(hash: u64) -> Vec<f32> {
    (0..u64::from(VOCAB)).map(|v| (mix(hash, v) >> 40) as f32 / 2_097_152.0).collect()
}

fn row_of(token: u32, position: usize) -> u64 {
    mix(u64::from(token), position as u64)
}

/// The logits after `tokens`, by definition, without blocks.
pub(crate) fn logits_after(tokens: &[u32], stateful: bool) -> Vec<f32> {
    let rows: Vec<u64> = tokens.iter().enumerate().map(|(i, &t)| row_of(t, i)).collect();
    let mut hash = rows.iter().fold(0, |h, &r| mix(h, r));
    for block in rows.chunks_exact(BLOCK) {
        hash = mix(hash, block.iter().fold(1, |h, &r| mix(h, r)));
    }
    let state = tokens.iter().fold(0, |s, &t| mix(s, u64::from(t)));
    logits(if stateful { mix(hash, state) } else { hash })
}

/// What a generation must yield: tokens, and whether a stop id ended it.
pub(crate) fn expected(request: &GenerateRequest, stateful: bool) -> (Vec<u32>, bool) {
    let GenerateRequest { prompt, sampling, stop_ids: stop, max_tokens, grammar, .. } = request;
    let max = *max_tokens as usize;
    let mut matcher = grammar.as_ref().map(|g| g.matcher());
    let mut tokens = prompt.clone();
    let mut scratch = Scratch::default();
    while tokens.len() - prompt.len() < max {
        let row = SampleRow {
            row: 0,
            sampling: Arc::new(sampling.clone()),
            position: tokens.len() as u32,
            history: Some(Arc::from(&tokens[..])),
            prompt_len: prompt.len() as u32,
            mask: matcher.as_mut().and_then(|m| m.mask().unwrap()),
            logprobs: None,
        };
        let id = sample(&mut logits_after(&tokens, stateful), &row, &mut scratch).id;
        if stop.contains(&id) {
            return (tokens.split_off(prompt.len()), true);
        }
        tokens.push(id);
        matcher.iter_mut().for_each(|m| m.accept(id).unwrap());
    }
    (tokens.split_off(prompt.len()), false)
}

impl HashDevice {
    pub(crate) fn new(blocks: u32, sequences: u32, rows: u32, stateful: bool) -> Self {
        let pool = |name, layer, tokens_per_row| PoolSpec { name, layer, tokens_per_row, row_bytes: ROW as u32 };
        let state = StateSpec { name: "state", layer: 0, bytes: 8 };
        let cache = CacheSpec {
            block_tokens: BLOCK as u32,
            pools: vec![pool("kv", 0, 1), pool("digest", 1, BLOCK as u32)],
            states: stateful.then_some(state).into_iter().collect(),
            rewinds: if stateful { 0 } else { u32::MAX },
            formats: String::new(),
        };
        let spec =
            ModelSpec { architecture: "Hash".into(), vocab_size: VOCAB, context_length: 400, eos_ids: vec![0], cache };
        // Fresh memory holds anything but zeros.
        Self {
            spec,
            capacity: Capacity { blocks, sequences, rows },
            rows: vec![0xA5; blocks as usize * BLOCK * ROW],
            digests: vec![0x5A; blocks as usize * ROW],
            states: vec![0xDEAD; sequences as usize],
            delay: Duration::ZERO,
            is_held: None,
            fault: None,
            steps: Arc::default(),
            scratch: Scratch::default(),
        }
    }

    fn check(&self, plan: &Plan) -> Result<(), ExecError> {
        let bad = |what: String| Err(ExecError::BadPlan(what));
        if plan.tokens.is_empty() || plan.tokens.len() > self.capacity.rows as usize {
            return bad(format!("{} rows", plan.tokens.len()));
        }
        let mut written = Vec::new();
        let mut slots = Vec::new();
        let mut next_row = 0;
        for s in &plan.sequences {
            let table = table(plan, s);
            let end = (s.start + s.rows) as usize;
            if s.row != next_row || s.rows == 0 || table.len() * BLOCK < end {
                return bad(format!("{s:?} of {plan:?}"));
            }
            next_row += s.rows;
            if table.iter().any(|b| *b >= self.capacity.blocks) || s.slot >= self.capacity.sequences {
                return bad("ids out of range".into());
            }
            written.extend(&table[s.start as usize / BLOCK..end.div_ceil(BLOCK)]);
            slots.push(s.slot);
        }
        let readers = |b: &u32| plan.sequences.iter().filter(|s| table(plan, s).contains(b)).count();
        if written.iter().any(|b| readers(b) > 1) {
            return bad("a block is written by one sequence and named by another".into());
        }
        slots.sort_unstable();
        slots.dedup();
        if slots.len() != plan.sequences.len() || next_row as usize != plan.tokens.len() {
            return bad("slots or rows do not match the sequences".into());
        }
        Ok(())
    }

    fn write_row(&mut self, block: u32, at: usize, row: u64) {
        let from = (block as usize * BLOCK + at) * ROW;
        self.rows[from..from + ROW].copy_from_slice(&row.to_le_bytes());
    }

    fn write_digest(&mut self, block: u32) {
        let digest = (0..BLOCK).fold(1, |h, i| mix(h, self.read_row(block, i)));
        let from = block as usize * ROW;
        self.digests[from..from + ROW].copy_from_slice(&digest.to_le_bytes());
    }

    fn read_row(&self, block: u32, at: usize) -> u64 {
        word(&self.rows, block as usize * BLOCK + at)
    }

    /// The first layer writes the rows of a step, the second the digests of the blocks that they fill.
    fn layers(&mut self, plan: &Plan, watch: &mut dyn Watch) {
        for s in &plan.sequences {
            for i in 0..s.rows as usize {
                let (position, token) = (s.start as usize + i, plan.tokens[s.row as usize + i]);
                self.write_row(table(plan, s)[position / BLOCK], position % BLOCK, row_of(token, position));
            }
        }
        watch.layers_done(1, self);
        while self.is_held.as_ref().is_some_and(|held| held()) {
            std::thread::sleep(Duration::from_millis(1));
            watch.layers_done(1, self);
        }
        for s in &plan.sequences {
            let full = s.start as usize / BLOCK..(s.start + s.rows) as usize / BLOCK;
            table(plan, s)[full].iter().for_each(|block| self.write_digest(*block));
        }
        watch.layers_done(2, self);
    }

    /// The hash after each row of a sequence.
    fn hashes(&mut self, plan: &Plan, s: &PlanSequence) -> Vec<u64> {
        let table = table(plan, s);
        let mut hashes = Vec::new();
        for i in 0..s.rows as usize {
            let (position, token) = (s.start as usize + i, plan.tokens[s.row as usize + i]);
            let past = 0..=position;
            let mut hash = past.fold(0, |h, p| mix(h, self.read_row(table[p / BLOCK], p % BLOCK)));
            for block in &table[..(position + 1) / BLOCK] {
                hash = mix(hash, word(&self.digests, *block as usize));
            }
            if !self.spec.cache.states.is_empty() {
                let state = &mut self.states[s.slot as usize];
                *state = mix(*state, u64::from(token));
                hash = mix(hash, *state);
            }
            hashes.push(hash);
        }
        hashes
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at * ROW..(at + 1) * ROW].try_into().unwrap())
}

fn table<'a>(plan: &'a Plan, s: &PlanSequence) -> &'a [u32] {
    &plan.block_tables[s.table as usize..(s.table + s.table_len) as usize]
}

/// Knows what greedy decoding yields, and lies every fourth time, or guesses too much, or nonsense.
#[derive(Debug)]
struct Liar;

impl Drafter for Liar {
    fn draft(&mut self, _: &mut dyn Executor, wanted: &[Wanted<'_>], drafts: &mut Vec<Vec<u32>>) {
        for w in wanted {
            let mut text = w.tokens.to_vec();
            let mut hash = text.iter().fold(u64::from(w.slot), |h, t| mix(h, u64::from(*t)));
            for _ in 0..w.most + 2 {
                hash = mix(hash, 3);
                let logits = logits_after(&text, false);
                let best = (0..VOCAB).max_by(|a, b| logits[*a as usize].total_cmp(&logits[*b as usize])).unwrap();
                text.push(if hash.is_multiple_of(4) { (hash >> 8) as u32 % (VOCAB + 3) } else { best });
            }
            drafts.push(text.split_off(w.tokens.len()));
        }
    }
}

impl Executor for HashDevice {
    fn drafter(&self) -> Option<Box<dyn Drafter>> {
        Some(Box::new(Liar))
    }

    fn model(&self) -> &ModelSpec {
        &self.spec
    }

    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn run(&mut self, plan: &Plan, out: &mut Vec<Sampled>) -> Result<(), ExecError> {
        self.run_watched(plan, out, &mut ())
    }

    fn run_watched(&mut self, plan: &Plan, out: &mut Vec<Sampled>, watch: &mut dyn Watch) -> Result<(), ExecError> {
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Some(Fault::BadPlan(at)) if at == step => return Err(ExecError::BadPlan("told to".into())),
            Some(Fault::Device(at)) if at <= step => return Err(ExecError::Device("told to".into())),
            Some(Fault::Panic(at)) if at <= step => panic!("told to"),
            Some(Fault::Corrupt(at)) if at == step => self.rows[3] ^= 1,
            _ => {}
        }
        // A scheduler's mistake must fail the test, not only the request.
        self.check(plan).unwrap_or_else(|e| panic!("{e}"));
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        self.layers(plan, watch);
        let hashes: Vec<u64> = plan.sequences.iter().flat_map(|s| self.hashes(plan, s)).collect();
        for row in &plan.samples {
            out.push(sample(&mut logits(hashes[row.row as usize]), row, &mut self.scratch));
        }
        Ok(())
    }

    fn reset_slot(&mut self, slot: u32) {
        self.states[slot as usize] = 0;
    }

    fn write_pools(&mut self, block: u32, pools: Range<usize>, bytes: &[u8]) {
        let (rows, digest) = bytes.split_at(if pools.contains(&0) { BLOCK * ROW } else { 0 });
        if pools.contains(&0) {
            self.rows[block as usize * BLOCK * ROW..][..BLOCK * ROW].copy_from_slice(rows);
        }
        if pools.contains(&1) {
            self.digests[block as usize * ROW..][..ROW].copy_from_slice(digest);
        }
    }

    fn write_state(&mut self, slot: u32, bytes: &[u8]) {
        if let Ok(bytes) = bytes.try_into() {
            self.states[slot as usize] = u64::from_le_bytes(bytes);
        }
    }
}

impl CacheReader for HashDevice {
    fn cache(&self) -> &CacheSpec {
        &self.spec.cache
    }

    fn read_pools(&self, block: u32, pools: Range<usize>, out: &mut [u8]) {
        let (rows, digest) = out.split_at_mut(if pools.contains(&0) { BLOCK * ROW } else { 0 });
        if pools.contains(&0) {
            rows.copy_from_slice(&self.rows[block as usize * BLOCK * ROW..][..BLOCK * ROW]);
        }
        if pools.contains(&1) {
            digest.copy_from_slice(&self.digests[block as usize * ROW..][..ROW]);
        }
    }

    fn read_state(&self, slot: u32, out: &mut [u8]) {
        if !out.is_empty() {
            out.copy_from_slice(&self.states[slot as usize].to_le_bytes());
        }
    }
}
