//! Drafts for the sequences of a step, within what the step has room for.

use crate::draft::{Drafter, Speculation, Wanted};
use crate::exec::Executor;
use crate::kv::Kv;
use crate::sequence::Decoding;

/// The drafter of a decode role and its bounds.
#[derive(Debug)]
pub(crate) struct Speculator {
    drafter: Box<dyn Drafter>,
    most: usize,
    disable_by_batch_size: usize,
    drafts: Vec<Vec<u32>>,
}

impl Speculator {
    /// None if the device's model can't be drafted for.
    pub(crate) fn new(settings: &Speculation, device: &dyn Executor) -> Option<Self> {
        Some(Self {
            drafter: settings.drafter(device)?,
            most: settings.num_speculative_tokens,
            disable_by_batch_size: settings.disable_by_batch_size,
            drafts: Vec::new(),
        })
    }

    /// Gives sequences drafts of `spare` tokens in all, with memory for their rows.
    pub(super) fn draft(&mut self, planned: &mut [Decoding], kv: &mut Kv<'_>, mut spare: usize, max_total: usize) {
        let is_crowded = self.disable_by_batch_size > 0 && planned.len() > self.disable_by_batch_size;
        if spare == 0 || planned.is_empty() || is_crowded {
            return;
        }
        let most = |d: &Decoding| d.draft_length.next(self.most).min(d.seq.draft_room(max_total));
        let wanted: Vec<_> =
            planned.iter().map(|d| Wanted { tokens: &d.seq.tokens, slot: d.slot.id(), most: most(d) }).collect();
        let bounds: Vec<usize> = wanted.iter().map(|w| w.most).collect();
        let vocab = kv.device().model().vocab_size;
        self.drafts.clear();
        self.drafter.draft(kv.device(), &wanted, &mut self.drafts);
        for ((d, draft), most) in planned.iter_mut().zip(&self.drafts).zip(bounds) {
            let legal = draft.iter().take(most.min(spare)).take_while(|t| **t < vocab).count();
            if legal > 0 && kv.grow(&mut d.table, d.seq.tokens.len() + legal) {
                spare -= legal;
                d.draft.extend_from_slice(&draft[..legal]);
            }
        }
    }
}
