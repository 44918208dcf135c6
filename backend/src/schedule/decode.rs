//! The decode role: a token a step for every sequence whose client keeps up.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::plan::PlanBuilder;
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
}

impl DecodeRole {
    pub(crate) fn new(max_total_tokens: usize) -> Self {
        Self { running: Vec::new(), max_total_tokens, planned: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.running.len()
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

    /// Plans one row for each sequence that can run. When blocks run out, `surrender` may free some elsewhere; then the
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
        }
        self.running.sort_by_key(|d| (d.paused_since.is_some(), Reverse(d.seq.priority), d.arrival));
        let mut preempted = Vec::new();
        self.planned = 0;
        while let Some(d) = self.running.get_mut(self.planned).filter(|d| d.paused_since.is_none()) {
            if kv.grow(&mut d.table, d.seq.tokens.len()) {
                self.planned += 1;
            } else if !surrender() {
                preempted.extend(self.running.pop().map(Decoding::preempt));
            }
        }
        for d in &self.running[..self.planned] {
            builder.push(&d.seq, &d.table, &d.slot, 1);
        }
        preempted
    }

    /// Takes back the rows of a completed step.
    pub(crate) fn apply(&mut self, drawn: &mut impl Iterator<Item = Sampled>) -> DecodeStep {
        let mut step = DecodeStep::default();
        let rest = self.running.split_off(self.planned);
        self.planned = 0;
        for (mut d, token) in std::mem::take(&mut self.running).into_iter().zip(drawn) {
            let upto = d.seq.tokens.len();
            d.table.advance(&d.seq.tokens, upto);
            step.shares.push(d.seq.share);
            match d.seq.accept(token, self.max_total_tokens) {
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
