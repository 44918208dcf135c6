//! The decode role: a token a step for every sequence whose client keeps up.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::plan::PlanBuilder;
use super::speculate::Speculator;
use crate::exec::Sampled;
use crate::kv::Kv;
use crate::sequence::{Decoding, Outcome, Prefilled, Resident, Sequence, Waiting};

/// A slow client's sequence keeps its memory for this long when others wait for it.
const PAUSE_GRACE: Duration = Duration::from_millis(20);

/// Sequences that are being decoded.
#[derive(Debug)]
pub(crate) struct DecodeRole {
    /// Those that run first, best first; then the paused ones.
    running: Vec<Decoding>,
    max_total_tokens: usize,
    speculator: Option<Speculator>,
    /// How many of `running` are in the present step: the first ones.
    planned: usize,
}

/// What a step did for the decode role.
#[derive(Debug, Default)]
pub(crate) struct DecodeStep {
    /// The share of each token drawn.
    pub(crate) shares: Vec<u64>,
    /// Sequences that ended.
    pub(crate) ended: usize,
    /// Drafts checked, tokens in them, and tokens that were right.
    pub(crate) drafts: usize,
    pub(crate) draft_tokens: usize,
    pub(crate) accepted_tokens: usize,
}

impl DecodeRole {
    pub(crate) fn new(max_total_tokens: usize, speculator: Option<Speculator>) -> Self {
        Self { running: Vec::new(), max_total_tokens, speculator, planned: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether a sequence could run if its mask were ready.
    pub(crate) fn awaits_masks(&self) -> bool {
        self.running.iter().any(|d| d.seq.has_room() && !d.seq.has_mask())
    }

    /// Sequences that the last plan left out because their client is slow.
    pub(crate) fn paused(&self) -> usize {
        self.running.iter().filter(|d| d.paused_since.is_some()).count()
    }

    /// Takes a sequence over. Says whether it goes on after its first token.
    pub(crate) fn start(&mut self, arrived: Prefilled<Resident>) -> Outcome {
        match arrived.start(self.max_total_tokens) {
            Some(decoding) => {
                self.running.push(decoding);
                Outcome::Continues
            }
            None => Outcome::Ended,
        }
    }

    /// Plans one row for each sequence that can run, and its draft. When blocks run out, `surrender` may free some elsewhere; then the
    /// sequence that matters least gives its blocks back: a paused one, else the lowest priority, else the youngest.
    pub(crate) fn plan(
        &mut self,
        builder: &mut PlanBuilder,
        kv: &mut Kv<'_>,
        now: Instant,
        mut surrender: impl FnMut() -> bool,
    ) -> Vec<Waiting> {
        for d in &mut self.running {
            d.paused_since = if d.seq.has_room() { None } else { d.paused_since.or(Some(now)) };
            d.awaits_mask = !d.seq.has_mask();
        }
        self.running.sort_by_key(|d| (d.paused_since.is_some(), d.awaits_mask, Reverse(d.seq.priority), d.arrival));
        let mut preempted = Vec::new();
        self.planned = 0;
        while let Some(d) = self.running.get_mut(self.planned).filter(|d| d.can_run()) {
            if kv.grow(&mut d.table, d.seq.tokens.len()) {
                self.planned += 1;
            } else if !surrender() {
                preempted.extend(self.running.pop().map(Decoding::preempt));
            }
        }
        if let Some(speculator) = &mut self.speculator {
            let spare = builder.rows_left().min(builder.samples_left()).saturating_sub(self.planned);
            speculator.draft(&mut self.running[..self.planned], kv, spare, self.max_total_tokens);
        }
        for d in &self.running[..self.planned] {
            builder.push(&d.seq, (&d.table, &d.slot), 1, &d.draft);
        }
        preempted
    }

    /// Takes back the rows of a completed step.
    pub(crate) fn apply(&mut self, drawn: &mut impl Iterator<Item = Sampled>) -> DecodeStep {
        let mut step = DecodeStep::default();
        let rest = self.running.split_off(self.planned);
        self.planned = 0;
        for mut d in std::mem::take(&mut self.running) {
            let drafted = d.draft.len();
            let taken = d.accept(drawn, self.max_total_tokens);
            step.shares.extend(std::iter::repeat_n(d.seq.share, taken.tokens));
            step.drafts += usize::from(drafted > 0);
            step.draft_tokens += drafted;
            step.accepted_tokens += taken.tokens.saturating_sub(1);
            match taken.outcome {
                Outcome::Continues => self.running.push(d),
                Outcome::Ended => step.ended += 1,
            }
        }
        self.running.extend(rest);
        step
    }

    /// Takes the memory of a sequence whose client has been slow for a while, for others that wait for memory.
    pub(crate) fn shed_paused(&mut self, now: Instant) -> Option<Waiting> {
        let long = |d: &Decoding| d.paused_since.is_some_and(|since| now.duration_since(since) >= PAUSE_GRACE);
        let i = self.running.iter().rposition(long)?;
        Some(self.running.remove(i).preempt())
    }

    /// Removes every sequence for which `gone` holds.
    pub(crate) fn sweep(&mut self, gone: impl Fn(&Sequence) -> bool) -> Vec<Sequence> {
        self.running.extract_if(.., |d| gone(&d.seq)).map(|d| d.seq).collect()
    }

    /// Removes the sequences of the present step, which did not run.
    pub(crate) fn take_planned(&mut self) -> Vec<Sequence> {
        let planned = std::mem::take(&mut self.planned);
        self.running.drain(..planned).map(|d| d.seq).collect()
    }
}
