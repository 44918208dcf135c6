//! Rows whose tokens a device draws itself: what they ask of it, and which of them the host draws.

use std::ops::Range;

use sluicegate_kernels::draw::{DrawBy, DrawOps, DrawRow};

use super::adjust::first_admitted;
use crate::exec::SampleRow;

/// Buffers that a caller keeps between steps.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    tokens: Vec<[u32; 3]>,
    /// Of each row its tokens; none where the host draws.
    ranges: Vec<Option<Range<usize>>>,
    sorted: Vec<(u32, bool)>,
}

impl Seen {
    /// Counts the tokens of the history of each row that `device` draws for: all of them, and those of the output.
    pub(crate) fn count(&mut self, rows: &[SampleRow], device: &impl DrawOps) {
        self.tokens.clear();
        self.ranges.clear();
        for row in rows {
            let from = self.tokens.len();
            let is_for_device = is_for_device(row, device);
            if let Some(history) = row.history.as_deref().filter(|_| is_for_device) {
                let output = row.prompt_len as usize;
                self.sorted.clear();
                self.sorted.extend(history.iter().enumerate().map(|(i, &token)| (token, i >= output)));
                self.sorted.sort_unstable();
                let runs = self.sorted.chunk_by(|a, b| a.0 == b.0);
                let counts =
                    |run: &[(u32, bool)]| [run[0].0, run.len() as u32, run.iter().filter(|t| t.1).count() as u32];
                self.tokens.extend(runs.map(counts));
            }
            self.ranges.push(is_for_device.then_some(from..self.tokens.len()));
        }
    }

    /// What each of the rows that were counted asks of a device; none where the host has to draw.
    pub(crate) fn asked<'a>(&'a self, rows: &'a [SampleRow]) -> Vec<Option<DrawRow<'a>>> {
        let asked = |(row, range): (&'a SampleRow, &Option<Range<usize>>)| {
            Some(DrawRow {
                by: by(row),
                seen: &self.tokens[range.clone()?],
                biases: &row.sampling.logit_bias,
                mask: row.mask.as_deref(),
            })
        };
        rows.iter().zip(&self.ranges).map(asked).collect()
    }
}

fn by(row: &SampleRow) -> DrawBy {
    let s = &*row.sampling;
    DrawBy {
        temperature: if s.top_k == 1 { 0.0 } else { s.temperature },
        top_k: s.top_k,
        top_p: s.top_p,
        min_p: s.min_p,
        seed: s.seed,
        position: row.position,
        repetition: s.repetition_penalty,
        frequency: s.frequency_penalty,
        presence: s.presence_penalty,
    }
}

/// Whether `device` draws for a row. Log probabilities are of the raw row, which the host has to see; a token that is biased twice
/// has an order.
pub(crate) fn is_for_device(row: &SampleRow, device: &impl DrawOps) -> bool {
    let biases = &row.sampling.logit_bias;
    let is_twice = |(i, bias): (usize, &(u32, f32))| biases[..i].iter().any(|other| other.0 == bias.0);
    row.logprobs.is_none() && !biases.iter().enumerate().any(is_twice) && device.draws(&by(row), !biases.is_empty())
}

/// The token of a row for which the device drew `token`: where it found none, what the host's sampler takes then.
pub(crate) fn drawn(token: u32, row: &SampleRow) -> u32 {
    if token != u32::MAX {
        return token;
    }
    row.mask.as_deref().and_then(first_admitted).unwrap_or(0)
}
