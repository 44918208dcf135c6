//! Steps of a runner, made by hand.

use std::sync::Arc;

use sluicegate_backend::api::Sampling;
use sluicegate_backend::exec::{Plan, PlanSequence, SampleRow};
use sluicegate_backend::run::Runner;
use sluicegate_kernels::ops::Ops;

/// Part of a sequence: its tokens, how many are cached, its blocks.
pub(crate) struct Part {
    pub(crate) tokens: Vec<u32>,
    pub(crate) start: u32,
    pub(crate) blocks: Vec<u32>,
    pub(crate) slot: u32,
}

/// A step all of whose rows are sampled.
fn plan(parts: &[Part]) -> Plan {
    let mut plan = Plan::default();
    for part in parts {
        let (row, rows) = (plan.tokens.len() as u32, part.tokens.len() as u32);
        let (table, table_len) = (plan.block_tables.len() as u32, part.blocks.len() as u32);
        plan.tokens.extend(&part.tokens);
        plan.block_tables.extend(&part.blocks);
        plan.sequences.push(PlanSequence { row, rows, start: part.start, table, table_len, slot: part.slot });
        plan.samples.extend((0..rows).map(|i| SampleRow {
            row: row + i,
            sampling: Arc::new(Sampling { temperature: 0.0, ..Sampling::default() }),
            position: part.start + i + 1,
            history: None,
            prompt_len: 0,
            mask: None,
            logprobs: None,
        }));
    }
    plan
}

/// Logits of all rows of a step.
pub(crate) fn logits<D: Ops>(runner: &mut Runner<D>, parts: &[Part]) -> Vec<Vec<f32>> {
    let mut rows = runner.logits(&plan(parts)).expect("a plan runs");
    (0..rows.rows()).map(|r| rows.row(r).to_vec()).collect()
}

/// Logits of all tokens, fed in chunks of these sizes and then one by one.
pub(crate) fn follow<D: Ops>(
    runner: &mut Runner<D>,
    tokens: &[u32],
    chunks: &[usize],
    blocks: &[u32],
) -> Vec<Vec<f32>> {
    let mut out = Vec::new();
    let mut sizes = chunks.iter().copied().chain(std::iter::repeat(1));
    while out.len() < tokens.len() {
        let start = out.len();
        let end = (start + sizes.next().expect("endless")).min(tokens.len());
        let part = Part { tokens: tokens[start..end].to_vec(), start: start as u32, blocks: blocks.to_vec(), slot: 0 };
        out.append(&mut logits(runner, &[part]));
    }
    out
}

/// The best token, and how far it leads.
pub(crate) fn best(logits: &[f32]) -> (usize, f32) {
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("logits");
    let second = logits.iter().enumerate().filter(|(i, _)| *i != best).map(|(_, &v)| v).fold(f32::MIN, f32::max);
    (best, logits[best] - second)
}
