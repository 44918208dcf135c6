//! Is a plan within its contract? A plan that isn't would corrupt another sequence's memory, so it is refused whole.

use crate::exec::{Capacity, ModelSpec, Plan, PlanSequence, SampleRow};

/// Checks plans against what the executor has allocated.
#[derive(Debug)]
pub(super) struct Checker {
    capacity: Capacity,
    vocab_size: u32,
    context_length: u32,
    block_tokens: u32,
    /// The plan that last wrote each block, and the one that last used each slot.
    writer: Vec<u64>,
    user: Vec<u64>,
    plan: u64,
}

impl Checker {
    pub(super) fn new(spec: &ModelSpec, capacity: Capacity) -> Self {
        Self {
            capacity,
            vocab_size: spec.vocab_size,
            context_length: spec.context_length,
            block_tokens: spec.cache.block_tokens,
            writer: vec![0; capacity.blocks as usize],
            user: vec![0; capacity.sequences as usize],
            plan: 0,
        }
    }

    /// Says what is wrong.
    pub(super) fn check(&mut self, plan: &Plan) -> Result<(), String> {
        self.plan += 1;
        let rows = plan.tokens.len();
        if rows > self.capacity.rows as usize {
            return Err(format!("{rows} rows, the executor has room for {}", self.capacity.rows));
        }
        if let Some(row) = plan.tokens.iter().position(|&t| t >= self.vocab_size) {
            return Err(format!("row {row}: token {} of a vocabulary of {}", plan.tokens[row], self.vocab_size));
        }
        let mut next = 0;
        for (i, s) in plan.sequences.iter().enumerate() {
            if s.row != next {
                return Err(format!("sequence {i}: starts at row {}, not {next}", s.row));
            }
            self.sequence(plan, s).map_err(|e| format!("sequence {i}: {e}"))?;
            next = next
                .checked_add(s.rows)
                .filter(|&n| n as usize <= rows)
                .ok_or("sequences have more rows than tokens")?;
        }
        if next as usize != rows {
            return Err(format!("sequences cover {next} of {rows} rows"));
        }
        self.samples(&plan.samples, rows)
    }

    fn sequence(&mut self, plan: &Plan, s: &PlanSequence) -> Result<(), String> {
        if s.rows == 0 {
            return Err("no rows".into());
        }
        let end = u64::from(s.start) + u64::from(s.rows);
        if end > u64::from(self.context_length) {
            return Err(format!("reaches position {end}, the context has {}", self.context_length));
        }
        let from = s.table as usize;
        let table =
            plan.block_tables.get(from..from + s.table_len as usize).ok_or("its block table is not in the plan")?;
        if (table.len() as u64) * u64::from(self.block_tokens) < end {
            return Err(format!("{} blocks of {} tokens for {end} tokens", table.len(), self.block_tokens));
        }
        if let Some(block) = table.iter().find(|&&b| b >= self.capacity.blocks) {
            return Err(format!("block {block} of {}", self.capacity.blocks));
        }
        let user =
            self.user.get_mut(s.slot as usize).ok_or(format!("slot {} of {}", s.slot, self.capacity.sequences))?;
        if std::mem::replace(user, self.plan) == self.plan {
            return Err(format!("slot {} is used twice", s.slot));
        }
        let written = s.start / self.block_tokens..=((end - 1) as u32 / self.block_tokens);
        for &block in &table[*written.start() as usize..=*written.end() as usize] {
            if std::mem::replace(&mut self.writer[block as usize], self.plan) == self.plan {
                return Err(format!("block {block} is written twice"));
            }
        }
        Ok(())
    }

    fn samples(&self, samples: &[SampleRow], rows: usize) -> Result<(), String> {
        if samples.len() > self.capacity.sequences as usize {
            return Err(format!("{} rows to sample, there is room for {}", samples.len(), self.capacity.sequences));
        }
        let mut last = 0;
        for (i, s) in samples.iter().enumerate() {
            if s.row as usize >= rows || s.row < last {
                return Err(format!("sample {i}: row {} of {rows}, after row {last}", s.row));
            }
            if s.mask.as_ref().is_some_and(|m| m.len() < self.vocab_size.div_ceil(32) as usize) {
                return Err(format!("sample {i}: its mask is shorter than the vocabulary"));
            }
            last = s.row;
        }
        Ok(())
    }
}
