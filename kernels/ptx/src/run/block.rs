//! One block: turns between threads, barriers, and the moment when a warp operation has all its lanes.

use std::collections::BTreeMap;

use super::Launch;
use super::copies::Copies;
use super::thread::{State, Thread};
use crate::ir::{Barrier, Op};
use crate::{Memory, PtxError};

/// A block while it runs.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) launch: &'a Launch<'a>,
    pub(super) place: [u32; 3],
    pub(super) memory: &'a mut Memory,
    pub(super) shared: Vec<u8>,
    /// Where dynamic shared memory begins.
    pub(super) dynamic_at: u64,
    pub(super) steps: u64,
    /// Threads that have only announced themselves at a barrier, by its number.
    arrived: BTreeMap<u64, u64>,
}

/// Threads of a block, moved out while one of them runs.
pub(super) type Threads = Vec<Thread>;

impl<'a> Block<'a> {
    pub(super) fn new(launch: &'a Launch<'a>, place: [u32; 3], memory: &'a mut Memory) -> Self {
        let variables = launch.kernel.shared_bytes;
        let dynamic_at = variables.next_multiple_of(128);
        let shared = if launch.dynamic_shared == 0 { variables } else { dynamic_at + launch.dynamic_shared };
        Self {
            launch,
            place,
            memory,
            // NaN, so that what is read before it is written shows.
            shared: vec![0xff; shared],
            dynamic_at: dynamic_at as u64,
            steps: 0,
            arrived: BTreeMap::new(),
        }
    }

    /// Runs to the end and tells the number of instructions.
    pub(super) fn run(mut self) -> Result<u64, PtxError> {
        let count = self.launch.block.iter().product();
        let new = |id| Thread {
            id,
            pc: 0,
            registers: vec![0; self.launch.kernel.registers],
            local: vec![0xff; self.launch.kernel.local_bytes],
            state: State::Ready,
            copies: Copies::default(),
        };
        let mut threads: Threads = (0..count).map(new).collect();
        while threads.iter().any(|t| t.state != State::Ended) {
            let mut moved = false;
            for thread in &mut threads {
                if thread.state == State::Ready {
                    self.turn(thread)?;
                    moved = true;
                }
            }
            for warp in threads.chunks_mut(32) {
                moved |= self.warp_operations(warp)?;
            }
            if !moved && !self.release_barrier(&mut threads)? {
                return Err(self.stall(&threads));
            }
        }
        Ok(self.steps)
    }

    /// Runs a thread until it waits or ends.
    fn turn(&mut self, thread: &mut Thread) -> Result<(), PtxError> {
        while thread.state == State::Ready {
            let pc = thread.pc;
            self.steps += 1;
            if let Err(message) = self.step(thread) {
                return Err(self.fault(pc, thread.id, message));
            }
        }
        Ok(())
    }

    pub(super) fn fault(&self, pc: usize, thread: u32, message: String) -> PtxError {
        let found = self.launch.kernel.code.get(pc);
        PtxError::Fault {
            kernel: self.launch.kernel.name.clone(),
            line: found.map_or(0, |i| i.line),
            thread,
            block: self.place,
            message: found.map_or_else(|| message.clone(), |i| format!("`{}`: {message}", i.opcode)),
        }
    }

    /// Carries out every warp operation whose lanes are all there.
    fn warp_operations(&mut self, warp: &mut [Thread]) -> Result<bool, PtxError> {
        let mut moved = false;
        for i in 0..warp.len() {
            let State::AtWarpOp { pc, mask } = warp[i].state else { continue };
            if let Some(ended) = warp.iter().find(|t| mask >> t.lane() & 1 == 1 && t.state == State::Ended) {
                let message = format!("lane {} of the mask {mask:#010x} has ended", ended.lane());
                return Err(self.fault(pc, warp[i].id, message));
            }
            let here = |t: &&Thread| t.state == State::AtWarpOp { pc, mask };
            let lanes: u32 = warp.iter().filter(here).map(|t| 1 << t.lane()).sum();
            if lanes != mask {
                continue;
            }
            if let Err(message) = self.warp_step(pc, mask, warp) {
                return Err(self.fault(pc, warp[i].id, message));
            }
            for t in warp.iter_mut().filter(|t| mask >> t.lane() & 1 == 1) {
                t.state = State::Ready;
                t.pc = pc + 1;
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Lets the threads of a complete barrier go on.
    fn release_barrier(&mut self, threads: &mut Threads) -> Result<bool, PtxError> {
        let live = threads.iter().filter(|t| t.state != State::Ended).count() as u64;
        let mut waiting: BTreeMap<u64, (u64, u64, usize)> = BTreeMap::new();
        for thread in threads.iter() {
            if let State::AtBarrier { pc, id, threads } = thread.state {
                let entry = waiting.entry(id).or_insert((0, threads, pc));
                entry.0 += 1;
                if entry.2 != pc {
                    let message = format!("barrier {id} is waited for here and in line {}", self.line(entry.2));
                    return Err(self.fault(pc, thread.id, message));
                }
            }
        }
        let complete = waiting.iter().find(|(id, (count, wanted, _))| {
            let wanted = if *wanted == 0 { live } else { *wanted };
            count + self.arrived.get(id).unwrap_or(&0) >= wanted
        });
        let Some((&id, &(_, _, pc))) = complete else { return Ok(false) };
        self.arrived.remove(&id);
        let vote = self.barrier_vote(pc, threads);
        for thread in threads.iter_mut().filter(|t| matches!(t.state, State::AtBarrier { id: i, .. } if i == id)) {
            if let (Some(vote), Some(to)) = (vote, self.launch.kernel.code[pc].operands.first()) {
                Self::write(thread, to, vote);
            }
            thread.state = State::Ready;
            thread.pc = pc + 1;
        }
        Ok(true)
    }

    /// Result of `bar.red`.
    fn barrier_vote(&self, pc: usize, threads: &Threads) -> Option<u64> {
        let instruction = &self.launch.kernel.code[pc];
        let Op::Barrier(kind @ (Barrier::And | Barrier::Or | Barrier::PopCount)) = instruction.op else { return None };
        let predicate = instruction.operands.last()?;
        let waiting = threads.iter().filter(|t| matches!(t.state, State::AtBarrier { pc: p, .. } if p == pc));
        let votes: Vec<bool> = waiting.map(|t| self.value(t, predicate) & 1 == 1).collect();
        Some(match kind {
            Barrier::And => u64::from(votes.iter().all(|v| *v)),
            Barrier::Or => u64::from(votes.iter().any(|v| *v)),
            _ => votes.iter().filter(|v| **v).count() as u64,
        })
    }

    pub(super) fn announce(&mut self, barrier: u64) {
        *self.arrived.entry(barrier).or_default() += 1;
    }

    fn line(&self, pc: usize) -> u32 {
        self.launch.kernel.code[pc].line
    }

    fn stall(&self, threads: &Threads) -> PtxError {
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        for thread in threads {
            if let State::AtBarrier { pc, .. } | State::AtWarpOp { pc, .. } = thread.state {
                *places.entry(pc).or_default() += 1;
            }
        }
        let place = |(pc, count): (&usize, &usize)| {
            format!("{count} threads wait at `{}` in line {}", self.launch.kernel.code[*pc].opcode, self.line(*pc))
        };
        let message = places.iter().map(place).collect::<Vec<_>>().join(", ");
        PtxError::Stall { kernel: self.launch.kernel.name.clone(), block: self.place, message }
    }
}
