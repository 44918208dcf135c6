//! The prefill role: admits waiting sequences and computes their text in chunks.

use super::plan::PlanBuilder;
use super::queue::FairQueue;
use crate::exec::Sampled;
use crate::kv::Kv;
use crate::sequence::{Prefilled, Prefilling, Resident, Sequence, Waiting};

/// What bounds admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// Most tokens of one sequence in one step.
    pub(crate) chunk: usize,
    /// Whether each share has its own prefix cache.
    pub(crate) salt_by_share: bool,
}

/// Sequences that wait or are being computed.
#[derive(Debug)]
pub(crate) struct PrefillRole {
    pub(crate) queue: FairQueue,
    pub(crate) running: Vec<Prefilling>,
    admission: Admission,
    /// Rows that each planned sequence has in the present step; they are the first ones of `running`, in order.
    planned: Vec<usize>,
}

/// What a step did for the prefill role.
#[derive(Debug, Default)]
pub(crate) struct PrefillStep {
    /// Sequences whose text is complete.
    pub(crate) complete: Vec<Prefilled<Resident>>,
    /// Rows computed.
    pub(crate) rows: usize,
}

/// Figures of what a plan admitted for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Admitted {
    pub(crate) prompt_tokens: usize,
    /// Of these, tokens whose KV was reused.
    pub(crate) cached_tokens: usize,
}

impl PrefillRole {
    pub(crate) fn new(queue: FairQueue, admission: Admission) -> Self {
        Self { queue, running: Vec::new(), admission, planned: Vec::new() }
    }

    /// Fills what is left of the step: first the sequences already begun, oldest first, then newly admitted ones.
    /// `reserve` blocks are left for sequences that decode. Returns the figures of what was admitted.
    pub(crate) fn plan(&mut self, builder: &mut PlanBuilder, kv: &mut Kv<'_>, reserve: usize) -> Admitted {
        let mut admitted = Admitted::default();
        self.planned.clear();
        for i in 0.. {
            if builder.rows_left() == 0 {
                break;
            }
            if i == self.running.len() {
                let Some(next) = self.admit(kv, reserve, &mut admitted) else { break };
                self.running.push(next);
            }
            let p = &self.running[i];
            let rows = p.remaining().min(self.admission.chunk).min(builder.rows_left());
            // Drafts may have taken the places of this step's draws.
            if rows == p.remaining() && builder.samples_left() == 0 {
                break;
            }
            builder.push(&p.seq, (&p.table, &p.slot), rows, &[]);
            self.planned.push(rows);
        }
        admitted
    }

    /// The next waiting sequence with all the memory it needs, or none.
    fn admit(&mut self, kv: &mut Kv<'_>, reserve: usize, admitted: &mut Admitted) -> Option<Prefilling> {
        let slot = kv.slot()?;
        let salt_by_share = self.admission.salt_by_share;
        let mut table = None;
        let waiting = self.queue.pop_if(
            |w| w.seq.has_room() && w.seq.has_mask(),
            |w| {
                let mut t = kv.match_prefix(&w.seq.tokens, salt_by_share.then_some(w.seq.share));
                let missing = kv.blocks_for(w.seq.tokens.len()) - t.len();
                let fits = kv.available() >= missing + reserve && kv.grow(&mut t, w.seq.tokens.len());
                table = fits.then_some(t);
                fits
            },
        )?;
        let is_new = waiting.seq.cached.is_none();
        let next = waiting.admit(table?, slot);
        self.queue.charge(next.seq.share, next.remaining());
        if is_new {
            admitted.prompt_tokens += next.seq.prompt_len;
            admitted.cached_tokens += next.table.filled();
        }
        Some(next)
    }

    /// The sequences of the present step, with the rows that each has in it.
    pub(crate) fn planned(&self) -> impl Iterator<Item = (&Prefilling, usize)> {
        self.running.iter().zip(self.planned.iter().copied())
    }

    /// Takes back the rows of a completed step. `drawn` yields the sampled tokens in plan order.
    pub(crate) fn apply(&mut self, drawn: &mut impl Iterator<Item = Sampled>) -> PrefillStep {
        let mut step = PrefillStep::default();
        let planned = self.planned.len();
        let mut begun = std::mem::take(&mut self.running);
        let rest = begun.split_off(planned);
        for (mut p, rows) in begun.into_iter().zip(self.planned.drain(..)) {
            step.rows += rows;
            let upto = p.table.filled() + rows;
            p.table.advance(&p.seq.tokens, upto);
            if p.remaining() > 0 {
                self.running.push(p);
            } else if let Some(first) = drawn.next() {
                step.complete.push(p.complete(first));
            }
        }
        self.running.extend(rest);
        step
    }

    /// Gives back the memory of the sequence admitted last. Its place in the queue is where it was.
    pub(crate) fn surrender(&mut self) -> bool {
        let Some(last) = self.running.pop() else { return false };
        self.queue.push(last.preempt());
        true
    }

    /// Removes the sequences of the present step, which did not run.
    pub(crate) fn take_planned(&mut self) -> Vec<Sequence> {
        let planned = std::mem::take(&mut self.planned).len();
        self.running.drain(..planned).map(|p| p.seq).collect()
    }

    /// Removes every sequence for which `gone` holds.
    pub(crate) fn sweep(&mut self, gone: impl Fn(&Sequence) -> bool) -> Vec<Sequence> {
        let mut removed: Vec<_> = self.queue.sweep(|w: &Waiting| gone(&w.seq)).into_iter().map(|w| w.seq).collect();
        removed.extend(self.running.extract_if(.., |p| gone(&p.seq)).map(|p| p.seq));
        removed
    }
}
