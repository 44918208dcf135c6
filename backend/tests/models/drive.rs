//! Runs sequences through an executor and collects logits.

use std::path::Path;
use std::sync::Arc;

use sluicegate_backend::api::Sampling;
use sluicegate_backend::exec::{Executor, Plan, PlanSequence, SampleRow};
use sluicegate_backend::run::{CpuRunOptions, Runner, open_cpu};
use sluicegate_kernels::cpu::Cpu;

/// An executor with room for every row's logits.
pub(crate) fn open(dir: &Path, options: CpuRunOptions) -> Runner<Cpu> {
    let options = CpuRunOptions { blocks: 64, sequences: 160, rows: 256, ..options };
    open_cpu(dir, &options).expect("a golden model opens")
}

/// A greedy row.
pub(crate) fn greedy(row: u32, position: u32) -> SampleRow {
    let sampling = Arc::new(Sampling { temperature: 0.0, ..Sampling::default() });
    SampleRow { row, sampling, position, history: None, prompt_len: 0, mask: None, logprobs: None }
}

/// Rows `start..start + tokens.len()` of one sequence, all sampled.
pub(crate) fn plan(tokens: &[u32], start: u32, table: &[u32]) -> Plan {
    let rows = tokens.len() as u32;
    Plan {
        tokens: tokens.to_vec(),
        sequences: vec![PlanSequence { row: 0, rows, start, table: 0, table_len: table.len() as u32, slot: 0 }],
        block_tables: table.to_vec(),
        samples: (0..rows).map(|r| greedy(r, start + r + 1)).collect(),
    }
}

/// Logits of every position when the tokens are fed in chunks of these sizes (the last one repeats).
pub(crate) fn logits(runner: &mut Runner<Cpu>, tokens: &[u32], chunks: &[usize], table: &[u32]) -> Vec<Vec<f32>> {
    let mut out: Vec<Vec<f32>> = Vec::new();
    let mut sizes = chunks.iter().copied().chain(std::iter::repeat(*chunks.last().expect("a size")));
    while out.len() < tokens.len() {
        let start = out.len();
        let end = tokens.len().min(start + sizes.next().expect("endless"));
        let mut rows = runner.logits(&plan(&tokens[start..end], start as u32, table)).expect("a plan runs");
        out.extend((0..end - start).map(|r| rows.row(r).to_vec()));
    }
    out
}

/// Decodes several sequences together, one row each after their prompts, and gives what was drawn.
pub(crate) fn decode(runner: &mut Runner<Cpu>, prompts: &[Vec<u32>], steps: usize) -> Vec<Vec<u32>> {
    let blocks = 64 / prompts.len();
    let table = |s: usize| (0..blocks).map(|b| (b * prompts.len() + s) as u32).collect::<Vec<_>>();
    let mut drawn: Vec<Vec<u32>> = vec![Vec::new(); prompts.len()];
    let mut sampled = Vec::new();
    for step in 0..steps {
        let mut all = Plan::default();
        for (s, prompt) in prompts.iter().enumerate() {
            let (tokens, start) = match drawn[s].last() {
                None => (prompt.clone(), 0),
                Some(&last) => (vec![last], prompt.len() + step - 1),
            };
            let (row, rows, first) = (all.tokens.len() as u32, tokens.len() as u32, all.block_tables.len() as u32);
            all.tokens.extend(tokens);
            all.block_tables.extend(table(s));
            let table_len = blocks as u32;
            all.sequences.push(PlanSequence {
                row,
                rows,
                start: start as u32,
                table: first,
                table_len,
                slot: s as u32,
            });
            all.samples.push(greedy(row + rows - 1, start as u32 + rows));
        }
        runner.run(&all, &mut sampled).expect("a plan runs");
        drawn.iter_mut().zip(&sampled).for_each(|(d, s)| d.push(s.id));
    }
    drawn
}
