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
    /// Block tables for a drafter that needs them, one after another.
    blocks: Vec<u32>,
}

/// What one sequence may be drafted.
struct Bound {
    /// Most tokens from the drafter; none where a grammar says what may come, for then it says what must come too.
    most: usize,
    /// Tokens that a grammar forces.
    forced: Vec<u32>,
    /// Its part of the block tables.
    blocks: std::ops::Range<usize>,
}

impl Speculator {
    /// None if the device's model can't be drafted for.
    pub(crate) fn new(settings: &Speculation, device: &dyn Executor) -> Option<Self> {
        Some(Self {
            drafter: settings.drafter(device)?,
            most: settings.num_speculative_tokens,
            disable_by_batch_size: settings.disable_by_batch_size,
            drafts: Vec::new(),
            blocks: Vec::new(),
        })
    }

    /// Gives sequences drafts of `spare` tokens in all, with memory for their rows.
    pub(super) fn draft(&mut self, planned: &mut [Decoding], kv: &mut Kv<'_>, mut spare: usize, max_total: usize) {
        let is_crowded = self.disable_by_batch_size > 0 && planned.len() > self.disable_by_batch_size;
        if spare == 0 || planned.is_empty() || is_crowded {
            return;
        }
        let bounds = self.bounds(planned, kv, spare, max_total);
        let wanted = planned.iter().zip(&bounds).map(|(d, bound)| Wanted {
            tokens: &d.seq.tokens,
            slot: d.slot.id(),
            most: bound.most,
            blocks: &self.blocks[bound.blocks.clone()],
            sampling: &d.seq.sampling,
            prompt_len: d.seq.prompt_len,
        });
        let wanted: Vec<_> = wanted.collect();
        let vocab = kv.device().model().vocab_size;
        self.drafts.clear();
        self.drafter.draft(kv.device(), &wanted, &mut self.drafts);
        for ((d, draft), bound) in planned.iter_mut().zip(&self.drafts).zip(bounds) {
            let (draft, most) = if bound.forced.is_empty() { (draft, bound.most) } else { (&bound.forced, usize::MAX) };
            let legal = draft.iter().take(most.min(spare)).take_while(|t| **t < vocab).count();
            if legal > 0 && kv.grow(&mut d.table, d.seq.tokens.len() + legal) {
                spare -= legal;
                d.draft.extend_from_slice(&draft[..legal]);
            }
        }
    }

    /// How long each sequence's draft may be. For a drafter that writes to blocks, the tables cover it and `spare` is shared out
    /// beforehand.
    fn bounds(&mut self, planned: &mut [Decoding], kv: &mut Kv<'_>, mut spare: usize, max_total: usize) -> Vec<Bound> {
        let needs_blocks = self.drafter.needs_blocks();
        self.blocks.clear();
        let bound = |d: &mut Decoding| {
            let room = d.seq.draft_room(max_total);
            let mut most = d.draft_length.next(self.most).min(room);
            let mut forced = Vec::new();
            if let Some(tokens) = d.seq.forced() {
                most = 0;
                forced.extend(tokens.take(room.min(self.most)));
            }
            let from = self.blocks.len();
            if needs_blocks {
                let known = d.seq.tokens.len();
                most = most.min(spare);
                if !kv.grow(&mut d.table, known + most) {
                    most = 0;
                }
                spare -= most;
                self.blocks.extend(d.table.readable().ids(known + most));
            }
            Bound { most, forced, blocks: from..self.blocks.len() }
        };
        planned.iter_mut().map(bound).collect()
    }
}
