//! The model's own drafting layer as a drafter: a token at a time for all sequences together, each guess fed back.

use super::{Drafter, Wanted};
use crate::exec::{Executor, Plan, PlanSequence, SampleRow, Sampled};

/// See the file's head. A guess is drawn with the sequence's own sampling, seed and position, so that where the layer's
/// distribution is close to the model's, a sampled token is guessed as well as a greedy one.
#[derive(Debug, Default)]
pub struct Mtp {
    plan: Plan,
    drawn: Vec<Sampled>,
}

impl Mtp {
    /// Plans the next guess of every sequence that wants one after `n`.
    fn plan(&mut self, n: usize, wanted: &[Wanted<'_>], drafts: &[Vec<u32>]) {
        self.plan.clear();
        for (w, draft) in wanted.iter().zip(drafts) {
            let Some(&last) = draft.last().or(w.tokens.last()) else { continue };
            if n >= w.most {
                continue;
            }
            let (row, table) = (self.plan.tokens.len() as u32, self.plan.block_tables.len() as u32);
            self.plan.tokens.push(last);
            self.plan.block_tables.extend_from_slice(w.blocks);
            self.plan.sequences.push(PlanSequence {
                row,
                rows: 1,
                start: (w.tokens.len() + n - 1) as u32,
                table,
                table_len: w.blocks.len() as u32,
                slot: w.slot,
            });
            self.plan.samples.push(SampleRow::after(row, w.sampling, (w.tokens, w.prompt_len), draft));
        }
    }
}

impl Drafter for Mtp {
    fn draft(&mut self, device: &mut dyn Executor, wanted: &[Wanted<'_>], drafts: &mut Vec<Vec<u32>>) {
        drafts.resize(wanted.len(), Vec::new());
        let most = wanted.iter().map(|w| w.most).max().unwrap_or(0);
        for n in 0..most {
            self.plan(n, wanted, drafts);
            if let Err(error) = device.draft(&self.plan, &mut self.drawn) {
                // A device that failed says so in the next step, too; guesses so far are as good as any.
                tracing::warn!(%error, "no draft from the model's own layer");
                return;
            }
            let drafting = wanted.iter().zip(&mut *drafts).filter(|(w, _)| n < w.most);
            drafting.zip(&self.drawn).for_each(|((_, draft), guess)| draft.push(guess.id));
        }
    }

    fn needs_blocks(&self) -> bool {
        true
    }
}
