//! Clients that leave in every phase, one by one and at once (cases S09, S10 and S13).

use std::time::Duration;

use sluicegate_backend::api::{Event, GenerateRequest};
use sluicegate_workers::Pooled;

use crate::rig::{Dice, Rig, Size, finish, long, probe, request, until};

/// Where a request is when its client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// At the prefill worker, behind others.
    Queued,
    /// In its first chunk.
    Prefill,
    /// Some of its pages have arrived, others are not computed.
    Transferring,
    /// Computed; the decode worker has no place for it.
    Transferred,
    /// Being decoded.
    Decoding,
}

const PHASES: [Phase; 5] = [Phase::Queued, Phase::Prefill, Phase::Transferring, Phase::Transferred, Phase::Decoding];

/// Two places and steps of 8 tokens.
fn small() -> Size {
    Size { seqs: 2, rows: 8, delay: Duration::from_millis(1), ..Size::default() }
}

const LIMIT: Duration = Duration::from_secs(5);

impl Rig {
    /// Starts a request and holds it where some of its pages have arrived and others are not computed.
    async fn half_way(&self, dice: &mut Dice) -> Pooled {
        let (p, d) = (&self.prefill, &self.decode.worker);
        let before = d.stats().transfer_pages_total;
        p.gate.hold_after(1);
        let victim = self.pool.submit(long(dice, 300)).await.unwrap();
        // One step after the other: 300 tokens take 38 of them.
        for _ in 0..30 {
            until(LIMIT, "the prefill worker is held", || p.gate.is_held()).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            if d.stats().transfer_pages_total > before {
                break;
            }
            p.gate.hold_after(1);
        }
        until(LIMIT, "the prefill worker is held", || p.gate.is_held()).await;
        let (here, there) = (d.stats(), p.worker.stats());
        assert!(here.transfer_pages_total > before && here.blocks_held > 0, "{here:?} {there:?}");
        victim
    }

    /// Brings a request to a phase; says what else was started for that.
    async fn bring_to(&self, phase: Phase, dice: &mut Dice) -> (Pooled, Vec<Pooled>) {
        let (p, d) = (&self.prefill, &self.decode);
        let mut others = Vec::new();
        match phase {
            Phase::Queued | Phase::Prefill => {
                p.gate.hold_after(0);
                for _ in 0..if phase == Phase::Queued { 2 } else { 0 } {
                    others.push(self.pool.submit(long(dice, 5)).await.unwrap());
                }
                let victim = self.pool.submit(long(dice, 60)).await.unwrap();
                let asked = others.len() + 1;
                until(LIMIT, "it was asked for", || d.worker.stats().transferring == asked).await;
                until(LIMIT, "the prefill worker is held", || p.gate.is_held()).await;
                (victim, others)
            }
            Phase::Transferring => (self.half_way(dice).await, others),
            Phase::Transferred => {
                for _ in 0..2 {
                    let slow = GenerateRequest { max_tokens: 350, ..long(dice, 5) };
                    others.push(self.pool.submit(slow).await.unwrap());
                }
                until(LIMIT, "both places decode", || d.worker.stats().decoding == 2).await;
                let victim = self.pool.submit(long(dice, 20)).await.unwrap();
                until(LIMIT, "it is computed", || p.worker.stats().transferring == 1).await;
                (victim, others)
            }
            Phase::Decoding => {
                let mut victim = self.pool.submit(long(dice, 20)).await.unwrap();
                while !matches!(victim.recv().await, Some(Event::Token { .. })) {}
                d.gate.hold_after(0);
                until(LIMIT, "the decode worker is held", || d.gate.is_held()).await;
                (victim, others)
            }
        }
    }

    /// A request's client leaves in a phase, and everything is let go.
    async fn leave_in(&self, phase: Phase, dice: &mut Dice) {
        let (victim, others) = self.bring_to(phase, dice).await;
        drop(victim);
        drop(others);
        tokio::time::sleep(Duration::from_micros(dice.roll(3000) as u64)).await;
        self.prefill.gate.open();
        self.decode.gate.open();
        self.assert_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_in_any_phase_leaves_nothing() {
    let rig = Rig::start(&small(), &small()).await;
    let mut dice = Dice(9);
    for phase in PHASES {
        for _ in 0..50 {
            rig.leave_in(phase, &mut dice).await;
        }
        probe(&rig.pool, &mut dice).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_that_leave_at_once_leave_nothing() {
    let rig = Rig::start(&small(), &small()).await;
    let mut dice = Dice(10);
    for round in 0..PHASES.len() {
        let gates = [&rig.prefill.gate, &rig.decode.gate];
        gates[round % 2].hold_after(dice.roll(20));
        let mut crowd = Vec::new();
        for _ in 0..200 {
            crowd.push(rig.pool.submit(request(&mut dice)).await.unwrap());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(crowd);
        gates[round % 2].open();
        rig.assert_idle().await;
        probe(&rig.pool, &mut dice).await;
    }
}

/// Guarantee 3, seen from outside: the abort fails the request at once, and the memory stays until nothing can write it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_an_aborted_transfer_is_kept_until_the_source_is_silent() {
    let rig = Rig::start(&small(), &small()).await;
    let mut dice = Dice(11);
    let victim = rig.half_way(&mut dice).await;
    let d = &rig.decode.worker;
    drop(victim);
    until(Duration::from_secs(1), "the request is over", || d.stats().running == 0).await;
    // Far longer than any message takes: no time-out frees them.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let s = d.stats();
    assert!(s.blocks_held > 0 && s.slots_used == 1 && s.rooms == 1, "{s:?}");
    rig.prefill.gate.open();
    rig.assert_idle().await;
    assert_eq!(d.stats().transfers_aborted_total, 1);
}

/// Nothing is slowed down by what was left: the same request before and after, exact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survivors_of_a_crowd_are_exact() {
    let rig = Rig::start(&Size::default(), &Size::default()).await;
    let mut dice = Dice(12);
    let mut stay = Vec::new();
    let mut leave = Vec::new();
    for i in 0..300 {
        let r = request(&mut dice);
        let generation = rig.pool.submit(r.clone()).await.unwrap();
        if i % 2 == 0 {
            stay.push((r, tokio::spawn(finish(generation))))
        } else {
            leave.push(generation)
        }
        if leave.len() > 20 {
            leave.truncate(dice.roll(10));
        }
    }
    drop(leave);
    for (r, task) in stay {
        task.await.unwrap().assert_exact(&r);
    }
    rig.assert_idle().await;
}
