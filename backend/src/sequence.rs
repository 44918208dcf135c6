//! A sequence and its phases: each phase is a type that owns exactly what the phase needs, so that dropping it at any
//! moment frees everything, and a phase error does not compile.
//!
//! ```text
//! Waiting ─► Prefilling ─► Prefilled ─► Decoding ─► (dropped)
//!    ▲           │                          │
//!    └───────────┴──── preempted ───────────┘
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::api::{Event, FinishReason, GenerateRequest, Pairing, Sampling, Stage, Usage};
use crate::draft::DraftLength;
use crate::engine::{Live, Outlet, QueuePlace};
use crate::exec::{SampleRow, Sampled, TokenMask};
use crate::grammar::Guide;
use crate::kv::{BlockTable, Slot};

/// What a sequence is in every phase: its request, its tokens so far, and its client.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: Arc<str>,
    pub(crate) share: u64,
    pub(crate) priority: i32,
    pub(crate) deadline: Option<Instant>,
    /// Prompt, then output.
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt_len: usize,
    pub(crate) outlet: Outlet,
    /// Prompt tokens whose KV was reused at the first admission.
    pub(crate) cached: Option<u32>,
    pub(crate) sampling: Arc<Sampling>,
    pub(crate) logprobs: Option<u8>,
    guide: Option<Guide>,
    /// Room and prefill worker that a gateway chose.
    pub(crate) pair: Option<(u64, SocketAddr)>,
    stop_ids: Vec<u32>,
    max_tokens: usize,
    announced: Option<Stage>,
    _live: Live,
}

/// What became of a sequence that was given a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It goes on.
    Continues,
    /// It is over; its client was told.
    Ended,
}

impl Sequence {
    pub(crate) fn new(request: GenerateRequest, outlet: Outlet, guide: Option<Guide>, live: Live) -> Self {
        Self {
            id: request.id,
            share: request.share,
            priority: request.priority,
            deadline: request.deadline,
            prompt_len: request.prompt.len(),
            tokens: request.prompt,
            outlet,
            cached: None,
            sampling: Arc::new(request.sampling),
            stop_ids: request.stop_ids,
            max_tokens: request.max_tokens as usize,
            logprobs: request.logprobs,
            guide,
            pair: None,
            announced: None,
            _live: live,
        }
    }

    /// Applies what a gateway decided.
    pub(crate) fn paired(mut self, pairing: Pairing) -> Self {
        self.pair = pairing.prefill.map(|prefill| (pairing.room, prefill));
        self.tokens.extend(pairing.output);
        self
    }

    /// Tells the client about a stage, once each, however often the sequence is preempted or tried again.
    pub(crate) fn announce(&mut self, stage: Stage) {
        if self.announced < Some(stage) {
            self.announced = Some(stage);
            self.outlet.send(Event::Stage(stage));
        }
    }

    /// Asks for the token after the known ones and this draft, drawn at row `row` of a plan.
    pub(crate) fn sample_row(&self, row: u32, draft: &[u32]) -> SampleRow {
        let plain = SampleRow::after(row, &self.sampling, (&self.tokens, self.prompt_len), draft);
        SampleRow { mask: self.mask(draft.len()), logprobs: self.logprobs, ..plain }
    }

    /// Takes the next token, tells the client, and ends the generation where it ends. Behind the last one of a step, call
    /// [`Self::go_on`].
    pub(crate) fn accept(&mut self, drawn: Sampled, max_total_tokens: usize) -> Outcome {
        let generated = self.tokens.len() - self.prompt_len + 1;
        if self.stop_ids.contains(&drawn.id) {
            self.finish(FinishReason::Stop(drawn.id), generated);
            return Outcome::Ended;
        }
        self.tokens.push(drawn.id);
        if generated == 1 {
            self.outlet.send(Event::Cached(self.cached.unwrap_or(0)));
        }
        self.outlet.send(Event::Token { id: drawn.id, logprobs: drawn.logprobs });
        if generated >= self.max_tokens || self.tokens.len() >= max_total_tokens {
            self.finish(FinishReason::Length, generated);
            return Outcome::Ended;
        }
        if let Some(guide) = &mut self.guide {
            guide.accept(drawn.id);
        }
        Outcome::Continues
    }

    /// Tells the client that the deadline passed.
    pub(crate) fn expire(&self) {
        self.finish(FinishReason::Deadline, self.tokens.len() - self.prompt_len);
    }

    /// Whether the deadline has passed.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|d| d <= now)
    }

    /// A step is over: the mask of the next token may be computed.
    pub(crate) fn go_on(&mut self) {
        if let Some(guide) = &mut self.guide {
            guide.go_on();
        }
    }

    /// Most tokens that a draft may hold: what may still be generated, less the one that a step yields anyway, and what
    /// the client has room for.
    pub(crate) fn draft_room(&self, max_total_tokens: usize) -> usize {
        let end = (self.prompt_len + self.max_tokens).min(max_total_tokens);
        end.saturating_sub(self.tokens.len() + 1).min(self.outlet.room().saturating_sub(1))
    }

    fn finish(&self, reason: FinishReason, generated: usize) {
        let usage = Usage {
            prompt_tokens: self.prompt_len as u32,
            cached_tokens: self.cached.unwrap_or(0),
            completion_tokens: generated as u32,
        };
        self.outlet.send(Event::Finished { reason, usage });
    }

    /// What its grammar forces next, if it has one.
    pub(crate) fn forced(&self) -> Option<impl Iterator<Item = u32>> {
        self.guide.as_ref().map(Guide::forced)
    }

    /// Whether it is known which tokens may come next.
    pub(crate) fn has_mask(&self) -> bool {
        self.guide.as_ref().is_none_or(Guide::is_ready)
    }

    /// The tokens that its grammar admits behind the first `forced` tokens that it forces; none: any.
    fn mask(&self, forced: usize) -> Option<TokenMask> {
        self.guide.as_ref().and_then(|guide| guide.mask(forced))
    }

    /// The tokens that its grammar admits next; none: any.
    pub(crate) fn next_mask(&self) -> Option<TokenMask> {
        self.mask(0)
    }

    /// Why its grammar can't be followed any further.
    pub(crate) fn lost_grammar(&self) -> Option<&str> {
        self.guide.as_ref().and_then(Guide::failure)
    }

    /// Whether its client reads fast enough for one more token.
    pub(crate) fn has_room(&self) -> bool {
        self.outlet.has_room(1)
    }
}

/// A sequence that holds no device memory: new, or preempted. Its whole text is computed when it is admitted.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) seq: Sequence,
    /// Order of arrival; kept when preempted, so that an old sequence stays old.
    pub(crate) arrival: u64,
    /// Its place in the bounded queue, held until it leaves the queue; preempted sequences do not count.
    place: Option<QueuePlace>,
}

impl Waiting {
    pub(crate) fn new(seq: Sequence, place: QueuePlace) -> Self {
        Self { seq, arrival: 0, place: Some(place) }
    }

    /// A sequence that a linked worker queues: it has its place in the queue there.
    pub(crate) fn unqueued(seq: Sequence) -> Self {
        Self::again(seq, 0)
    }

    /// It left the queue at the other end of a link.
    pub(crate) fn leave_queue(&mut self) {
        self.place = None;
        self.seq.announce(Stage::Prefill);
    }

    fn again(seq: Sequence, arrival: u64) -> Self {
        Self { seq, arrival, place: None }
    }

    /// Admits the sequence with memory for all its tokens; `table` may begin with reused blocks.
    pub(crate) fn admit(mut self, table: BlockTable, slot: Slot) -> Prefilling {
        self.seq.cached.get_or_insert(table.filled() as u32);
        self.seq.announce(Stage::Prefill);
        Prefilling { seq: self.seq, arrival: self.arrival, table, slot }
    }
}

/// A sequence whose known tokens are being computed, chunk by chunk. `table.filled()` says how far it is.
#[derive(Debug)]
pub(crate) struct Prefilling {
    pub(crate) seq: Sequence,
    pub(crate) arrival: u64,
    pub(crate) table: BlockTable,
    pub(crate) slot: Slot,
}

impl Prefilling {
    /// Tokens not yet computed.
    pub(crate) fn remaining(&self) -> usize {
        self.seq.tokens.len() - self.table.filled()
    }

    /// All tokens are computed and the next one is drawn: it may be handed to a decode worker.
    pub(crate) fn complete(mut self, first: Sampled) -> Prefilled<Resident> {
        debug_assert_eq!(self.remaining(), 0);
        self.seq.announce(Stage::Transfer);
        Prefilled { seq: self.seq, arrival: self.arrival, first, kv: Resident { table: self.table, slot: self.slot } }
    }

    /// Gives its memory back; it is computed again later.
    pub(crate) fn preempt(self) -> Waiting {
        Waiting::again(self.seq, self.arrival)
    }
}

/// KV that lies in this worker's device.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) table: BlockTable,
    pub(crate) slot: Slot,
}

/// The only thing in which the prefill role and the decode role meet: a computed prompt and the first token drawn from
/// it, with its KV wherever it is (`Resident`, or pages in flight). The decode role tells the client about the token.
#[derive(Debug)]
pub(crate) struct Prefilled<Kv> {
    pub(crate) seq: Sequence,
    pub(crate) arrival: u64,
    pub(crate) first: Sampled,
    pub(crate) kv: Kv,
}

impl Prefilled<Resident> {
    /// Takes the first token. The second value is none if the generation is over with it.
    pub(crate) fn start(mut self, max_total_tokens: usize) -> Option<Decoding> {
        self.seq.announce(Stage::Decode);
        match self.seq.accept(self.first, max_total_tokens) {
            Outcome::Ended => None,
            Outcome::Continues => {
                self.seq.go_on();
                Some(Decoding::new(self.seq, self.arrival, self.kv))
            }
        }
    }
}

/// What a sequence took from a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) outcome: Outcome,
    /// Tokens drawn for it, the stop token included.
    pub(crate) tokens: usize,
}

/// A sequence that grows by a token a step, or by more where a draft was right. Its last token is known but not yet in the KV memory.
#[derive(Debug)]
pub(crate) struct Decoding {
    pub(crate) seq: Sequence,
    pub(crate) arrival: u64,
    pub(crate) table: BlockTable,
    pub(crate) slot: Slot,
    /// Since when its client has been too slow.
    pub(crate) paused_since: Option<Instant>,
    /// The mask of its next token is still being computed.
    pub(crate) awaits_mask: bool,
    /// Tokens guessed for the present step.
    pub(crate) draft: Vec<u32>,
    pub(crate) draft_length: DraftLength,
}

impl Decoding {
    fn new(seq: Sequence, arrival: u64, kv: Resident) -> Self {
        let Resident { table, slot } = kv;
        Self {
            seq,
            arrival,
            table,
            slot,
            paused_since: None,
            awaits_mask: false,
            draft: Vec::new(),
            draft_length: DraftLength::default(),
        }
    }

    /// Whether it can be in the next step.
    pub(crate) fn can_run(&self) -> bool {
        self.paused_since.is_none() && !self.awaits_mask
    }

    /// Takes what a step drew after its last token and after each token of its draft: as many as are right. The KV of
    /// the wrong ones is not advanced over, so that the next step writes it again.
    pub(crate) fn accept(&mut self, drawn: &mut impl Iterator<Item = Sampled>, max_total_tokens: usize) -> Taken {
        let draft = std::mem::take(&mut self.draft);
        let mut taken = Taken { outcome: Outcome::Continues, tokens: 0 };
        let mut drawn = drawn.take(draft.len() + 1);
        for token in drawn.by_ref() {
            let was_right = draft.get(taken.tokens).is_some_and(|&guess| guess == token.id);
            let upto = self.seq.tokens.len();
            self.table.advance(&self.seq.tokens, upto);
            taken.tokens += 1;
            taken.outcome = self.seq.accept(token, max_total_tokens);
            if taken.outcome == Outcome::Ended || !was_right {
                break;
            }
        }
        drawn.for_each(drop);
        self.seq.go_on();
        self.draft_length.learn(draft.len(), taken.tokens.saturating_sub(1));
        taken
    }

    /// Gives its memory back; its text so far is computed again later.
    pub(crate) fn preempt(self) -> Waiting {
        Waiting::again(self.seq, self.arrival)
    }
}
