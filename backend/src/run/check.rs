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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::Sampling;
    use crate::exec::CacheSpec;

    fn checker() -> Checker {
        let spec = ModelSpec {
            architecture: "test".into(),
            vocab_size: 100,
            context_length: 64,
            eos_ids: Vec::new(),
            cache: CacheSpec { block_tokens: 16, ..CacheSpec::default() },
        };
        Checker::new(&spec, Capacity { blocks: 8, sequences: 3, rows: 40 })
    }

    fn sample(row: u32) -> SampleRow {
        let sampling = Arc::new(Sampling::default());
        SampleRow { row, sampling, position: 0, history: None, prompt_len: 0, mask: None, logprobs: None }
    }

    /// A prefill of 18 tokens and a decode row at position 20 that share no block.
    fn plan() -> Plan {
        Plan {
            tokens: vec![7; 19],
            sequences: vec![
                PlanSequence { row: 0, rows: 18, start: 0, table: 0, table_len: 2, slot: 0 },
                PlanSequence { row: 18, rows: 1, start: 20, table: 2, table_len: 2, slot: 2 },
            ],
            block_tables: vec![3, 5, 0, 7],
            samples: vec![sample(17), sample(18)],
        }
    }

    fn refused(expected: &str, damage: impl FnOnce(&mut Plan)) {
        let mut plan = plan();
        damage(&mut plan);
        let why = checker().check(&plan).expect_err(expected);
        assert!(why.contains(expected), "`{why}` does not say `{expected}`");
    }

    #[test]
    fn a_good_plan_passes_again_and_again() {
        let mut checker = checker();
        for _ in 0..3 {
            assert_eq!(checker.check(&plan()), Ok(()));
        }
        assert_eq!(checker.check(&Plan::default()), Ok(()));
    }

    #[test]
    fn sequences_may_read_the_same_prefix_but_not_write_the_same_block() {
        let mut shared = plan();
        shared.block_tables[2] = 3;
        shared.sequences[0].start = 16;
        shared.sequences[0].rows = 16;
        shared.sequences[1].row = 16;
        shared.tokens.truncate(17);
        shared.samples = vec![sample(16)];
        // Both read block 3 and write only blocks of their own.
        assert_eq!(checker().check(&shared), Ok(()));
        refused("block 5 is written twice", |p| p.block_tables[3] = 5);
    }

    #[test]
    fn every_breach_is_named() {
        refused("41 rows", |p| p.tokens = vec![7; 41]);
        refused("token 100 of a vocabulary", |p| p.tokens[3] = 100);
        refused("starts at row 17, not 18", |p| p.sequences[1].row = 17);
        refused("no rows", |p| p.sequences[1].rows = 0);
        refused("more rows than tokens", |p| p.sequences[0].rows = 20);
        refused("cover 18 of 19 rows", |p| p.sequences.truncate(1));
        refused("reaches position 65", |p| p.sequences[1].start = 64);
        refused("reaches position 4294967296", |p| p.sequences[1].start = u32::MAX);
        refused("block table is not in the plan", |p| p.sequences[1].table_len = 3);
        refused("block table is not in the plan", |p| p.sequences[1].table = u32::MAX);
        refused("1 blocks of 16 tokens for 18 tokens", |p| p.sequences[0].table_len = 1);
        refused("block 8 of 8", |p| p.block_tables[0] = 8);
        refused("slot 3 of 3", |p| p.sequences[0].slot = 3);
        refused("slot 0 is used twice", |p| p.sequences[1].slot = 0);
        refused("row 19 of 19", |p| p.samples[1].row = 19);
        refused("row 2 of 19, after row 17", |p| p.samples[1].row = 2);
        refused("4 rows to sample", |p| p.samples = vec![sample(0), sample(1), sample(2), sample(3)]);
        refused("shorter than the vocabulary", |p| p.samples[0].mask = Some(Arc::from([0u32; 3])));
    }
}
