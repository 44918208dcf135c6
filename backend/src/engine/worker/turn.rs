//! One turn of a worker, and the loop around it.

use std::time::{Duration, Instant};

use super::{Decode, Prefill, Worker};
use crate::api::{EngineError, Event};
use crate::engine::{Phase, Stats};
use crate::exec::{CacheReader, ExecError, Watch};
use crate::schedule::PrefillRole;
use crate::sequence::{Outcome, Sequence, Waiting};
use crate::transfer::Outbound;

/// How long a worker sleeps when it holds sequences but none can run: paused ones, or ones that wait for another
/// worker. Every event that can change that also wakes it; this bounds how late deadlines and grace times are seen.
const NAP: Duration = Duration::from_millis(10);

/// Longest time that a step waits for grammar masks; a short step waits a quarter of its own time.
const MASK_PATIENCE: Duration = Duration::from_millis(2);

/// Sends layers of the present step to where the sequences go.
struct Sent<'a> {
    role: &'a PrefillRole,
    out: &'a mut dyn Outbound,
}

impl Watch for Sent<'_> {
    fn layers_done(&mut self, layers: u32, device: &dyn CacheReader) {
        self.role.planned().for_each(|(sequence, rows)| self.out.layers_done(sequence, rows, layers));
        self.out.send(device);
    }
}

impl Worker {
    /// Runs until the engine stops.
    pub(super) fn run(&mut self) {
        loop {
            if self.shared.phase() == Phase::Stopping {
                self.receive();
                let why = self.shared.why_lost();
                let all = self.take_all();
                self.fail(all, &why);
                self.publish();
                return;
            }
            self.shared.turn_begins(self.index);
            let worked = self.turn();
            self.publish();
            self.shared.turn_ends(self.index);
            match worked {
                Ok(true) => {}
                Ok(false) if self.is_idle() => std::thread::park(),
                Ok(false) => std::thread::park_timeout(NAP),
                Err(lost) => {
                    tracing::error!(error = %lost, "an engine worker lost its device");
                    self.shared.lose(lost.to_string());
                }
            }
        }
    }

    /// Says whether anything moved. An error means that the device is lost.
    fn turn(&mut self) -> Result<bool, ExecError> {
        let now = Instant::now();
        self.receive();
        self.sweep(now);
        let moved = self.deliver(now);
        self.await_masks();
        self.plan(now);
        let mut kv = self.memory.on(&mut *self.device);
        kv.check(self.builder.plan().block_tables.iter().copied()).map_err(|e| ExecError::Device(e.to_string()))?;
        if self.builder.is_empty() {
            return Ok(moved);
        }
        self.drawn.clear();
        let began = Instant::now();
        match self.run_plan() {
            Ok(()) => {
                self.step_took = began.elapsed();
                self.apply(now);
                self.memory.on(&mut *self.device).seal();
                Ok(true)
            }
            Err(ExecError::BadPlan(why)) => {
                tracing::error!(%why, "an executor refused a plan");
                self.fail_planned(&EngineError::Worker(format!("a plan was refused: {why}")));
                Ok(true)
            }
            Err(lost @ ExecError::Device(_)) => Err(lost),
        }
    }

    /// Runs the plan. What its layers complete is sent on while later ones are computed.
    fn run_plan(&mut self) -> Result<(), ExecError> {
        let Self { device, builder, drawn, prefill, .. } = self;
        match prefill {
            Some(Prefill { role, out, .. }) => {
                device.run_watched(builder.plan(), drawn, &mut Sent { role, out: &mut **out })
            }
            None => device.run(builder.plan(), drawn),
        }
    }

    fn receive(&mut self) {
        if let Some(Prefill { role, inbox, returned, .. }) = &mut self.prefill {
            inbox.iter().flat_map(|r| r.try_iter()).for_each(|w| role.queue.push_new(w));
            returned.iter().flat_map(|r| r.try_iter()).for_each(|w| role.queue.push(w));
        }
        if let Some(Decode { inbox: Some(inbox), arrivals, .. }) = &mut self.decode {
            inbox.try_iter().for_each(|w| arrivals.submit(w));
        }
    }

    /// Drops sequences whose client left, whose deadline passed or whose grammar is lost, wherever they are in this worker.
    fn sweep(&mut self, now: Instant) {
        let gone = |s: &Sequence| s.outlet.is_closed() || s.is_late(now) || s.lost_grammar().is_some();
        let mut out = Vec::new();
        if let Some(p) = &mut self.prefill {
            out.extend(p.role.sweep(gone));
            let (left, stay) = p.blocked.drain(..).partition::<Vec<_>, _>(|b| gone(&b.seq));
            p.blocked.extend(stay);
            out.extend(left.into_iter().map(|b| b.seq));
        }
        if let Some(d) = &mut self.decode {
            out.extend(d.role.sweep(gone));
            out.extend(d.arrivals.sweep(&gone));
            let (left, stay) = d.returning.drain(..).partition::<Vec<_>, _>(|w| gone(&w.seq));
            d.returning.extend(stay);
            out.extend(left.into_iter().map(|w| w.seq));
        }
        for seq in out {
            tracing::debug!(id = %seq.id, tokens = seq.tokens.len(), "sequence dropped: client gone, deadline passed or grammar lost");
            if seq.outlet.is_closed() {
                self.stats.aborted_total += 1;
            } else if let Some(why) = seq.lost_grammar() {
                self.stats.failed_total += 1;
                seq.outlet.send(Event::Failed(EngineError::Grammar(why.to_owned())));
            } else {
                self.stats.expired_total += 1;
                seq.expire();
            }
        }
    }

    /// Moves sequences between the roles. Says whether any moved.
    fn deliver(&mut self, now: Instant) -> bool {
        let mut moved = false;
        if let Some(p) = &mut self.prefill {
            while let Some(next) = p.blocked.pop_front() {
                self.memory.on(&mut *self.device).check_out(&next.kv.table);
                if let Some(refused) = p.out.offer(next, &*self.device) {
                    p.blocked.push_front(*refused);
                    break;
                }
                moved = true;
            }
            let polled = p.out.poll(&*self.device);
            moved |= polled.moved || !polled.new.is_empty();
            polled.new.into_iter().for_each(|w| p.role.queue.push_new(w));
        }
        let Some(d) = &mut self.decode else { return moved };
        while let Some(arrived) = d.arrivals.take(&mut self.memory.on(&mut *self.device)) {
            moved = true;
            self.stats.generated_tokens_total += 1;
            if d.role.start(arrived) == Outcome::Ended {
                self.stats.finished_total += 1;
            }
        }
        if d.arrivals.is_starved()
            && let Some(shed) = d.role.shed_paused(now)
        {
            self.preempted(vec![shed]);
            moved = true;
        }
        self.send_back() || moved
    }

    /// Waits a little for masks, so that their sequences are not left out of a step for want of microseconds. A mask
    /// that takes longer holds up nobody else.
    fn await_masks(&self) {
        let Some(decode) = &self.decode else { return };
        let end = Instant::now() + (self.step_took / 4).min(MASK_PATIENCE);
        while decode.role.awaits_masks() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }

    fn plan(&mut self, now: Instant) {
        self.builder.begin(self.rows, self.device.capacity().sequences as usize);
        let mut preempted = Vec::new();
        if let Some(d) = &mut self.decode {
            let mut prefill = self.prefill.as_mut();
            let surrender = || prefill.as_mut().is_some_and(|p| p.role.surrender());
            preempted = d.role.plan(&mut self.builder, &mut self.memory.on(&mut *self.device), now, surrender);
        }
        self.preempted(preempted);
        self.plan_prefill();
        // Sequences of slow clients give way when they are what keeps the queue from moving.
        let starved = self.prefill.as_ref().is_some_and(|p| p.role.running.is_empty() && p.role.queue.len() > 0);
        if starved && let Some(shed) = self.decode.as_mut().and_then(|d| d.role.shed_paused(now)) {
            self.preempted(vec![shed]);
            self.plan_prefill();
        }
    }

    fn plan_prefill(&mut self) {
        let Some(p) = &mut self.prefill else { return };
        // Each decoding sequence may soon need one more block.
        let reserve = self.decode.as_ref().map_or(0, |d| d.role.len() - d.role.paused());
        let admitted = p.role.plan(&mut self.builder, &mut self.memory.on(&mut *self.device), reserve);
        self.stats.prompt_tokens_total += admitted.prompt_tokens as u64;
        self.stats.cached_tokens_total += admitted.cached_tokens as u64;
    }

    /// Sends preempted sequences to the queue, here or at the prefill worker.
    fn preempted(&mut self, sequences: Vec<Waiting>) {
        self.stats.preempted_total += sequences.len() as u64;
        sequences.iter().for_each(|w| tracing::debug!(id = %w.seq.id, "sequence preempted"));
        match (&mut self.prefill, &mut self.decode) {
            (Some(p), _) => sequences.into_iter().for_each(|w| p.role.queue.push(w)),
            (None, Some(d)) if d.back.is_some() => d.returning.extend(sequences),
            (None, Some(d)) => sequences.into_iter().for_each(|w| d.arrivals.submit(w)),
            (None, None) => {}
        }
    }

    fn send_back(&mut self) -> bool {
        let Some(Decode { back: Some(back), returning, .. }) = &mut self.decode else { return false };
        let mut moved = false;
        while let Some(next) = returning.pop_front() {
            if let Err(std::sync::mpsc::TrySendError::Full(next)) = back.try_send(next) {
                returning.push_front(next);
                break;
            }
            moved = true;
        }
        if moved {
            self.shared.wake();
        }
        moved
    }

    fn apply(&mut self, began: Instant) {
        let mut rows = 0;
        let mut drawn = self.drawn.drain(..);
        if let Some(d) = &mut self.decode {
            let step = d.role.apply(&mut drawn);
            rows += step.shares.len();
            self.stats.generated_tokens_total += step.shares.len() as u64;
            self.stats.finished_total += step.ended as u64;
            self.stats.spec_decode_drafts_total += step.drafts as u64;
            self.stats.spec_decode_draft_tokens_total += step.draft_tokens as u64;
            self.stats.spec_decode_accepted_tokens_total += step.accepted_tokens as u64;
            if let Some(p) = &mut self.prefill {
                step.shares.iter().for_each(|share| p.role.queue.charge(*share, 1));
            }
        }
        if let Some(p) = &mut self.prefill {
            let step = p.role.apply(&mut drawn);
            rows += step.rows;
            p.blocked.extend(step.complete);
            p.role.running.iter().for_each(|s| p.out.progress(s));
        }
        debug_assert!(drawn.next().is_none(), "more tokens drawn than sample rows planned");
        drop(drawn);
        self.stats.steps_total += 1;
        self.meter.add(rows, began.elapsed());
    }

    fn fail_planned(&mut self, why: &EngineError) {
        let mut lost = self.prefill.as_mut().map(|p| p.role.take_planned()).unwrap_or_default();
        lost.extend(self.decode.as_mut().map(|d| d.role.take_planned()).unwrap_or_default());
        self.fail(lost, why);
    }

    fn fail(&mut self, sequences: Vec<Sequence>, why: &EngineError) {
        self.stats.failed_total += sequences.len() as u64;
        sequences.into_iter().for_each(|s| s.outlet.send(Event::Failed(why.clone())));
    }

    fn take_all(&mut self) -> Vec<Sequence> {
        let mut all = Vec::new();
        if let Some(p) = &mut self.prefill {
            all.extend(p.role.sweep(|_| true));
            all.extend(p.blocked.drain(..).map(|b| b.seq));
        }
        if let Some(d) = &mut self.decode {
            all.extend(d.role.sweep(|_| true));
            all.extend(d.arrivals.sweep(&|_| true));
            all.extend(d.returning.drain(..).map(|w| w.seq));
        }
        all
    }

    /// Whether the worker holds no sequence, so that only a wake-up can bring it work.
    fn is_idle(&self) -> bool {
        let s = self.gauges();
        s.waiting + s.prefilling + s.transferring + s.decoding == 0
    }

    fn gauges(&self) -> Stats {
        let mut s = self.stats;
        if let Some(p) = &self.prefill {
            s.waiting += p.role.queue.len();
            s.prefilling += p.role.running.len();
            s.transferring += p.blocked.len() + p.out.held();
        }
        if let Some(d) = &self.decode {
            s.waiting += d.returning.len();
            s.transferring += d.arrivals.waiting();
            s.decoding += d.role.len();
            s.paused += d.role.paused();
        }
        if let Some(p) = &self.prefill {
            s.add_flow(p.out.flow());
        }
        if let Some(d) = &self.decode {
            s.add_flow(d.arrivals.flow());
        }
        let c = self.memory.counts();
        (s.blocks_total, s.blocks_free, s.blocks_held, s.blocks_cached) = (c.total, c.free, c.held, c.cached);
        (s.slots_total, s.slots_used) = (self.memory.slots_total(), self.memory.slots_used());
        (s.blocks_host, s.blocks_loaded_total) = (self.memory.host_blocks(), self.memory.loaded());
        s.tokens_per_second = self.meter.rate();
        s
    }

    fn publish(&self) {
        self.shared.publish(self.index, self.gauges());
    }
}
