//! Shuffles, votes and reductions of a warp.

use super::access::combine;
use super::block::Block;
use super::thread::Thread;
use crate::ir::{Op, Operand, Shuffle, Vote, WarpOp};
use crate::types::truncate;

impl Block<'_> {
    /// Carries out the warp operation at `pc` for the lanes of `mask`, which all wait there.
    pub(super) fn warp_step(&mut self, pc: usize, mask: u32, warp: &mut [Thread]) -> Result<(), String> {
        let instruction = &self.launch.kernel.code[pc];
        let Op::Warp(op) = instruction.op else { return Err("no warp operation".into()) };
        let operands = &instruction.operands;
        match op {
            WarpOp::Sync => Ok(()),
            WarpOp::Shuffle(how) => self.shuffle(how, mask, operands, warp),
            WarpOp::Vote(kind) => {
                let lanes = || warp.iter().filter(|t| mask >> t.lane() & 1 == 1);
                let votes: u32 =
                    lanes().filter(|t| self.value(t, &operands[1]) & 1 == 1).map(|t| 1u32 << t.lane()).sum();
                let result = match kind {
                    Vote::Ballot => votes,
                    Vote::All => u32::from(votes == mask),
                    Vote::Any => u32::from(votes != 0),
                    Vote::Uniform => u32::from(votes == 0 || votes == mask),
                };
                for_mask(warp, mask, |t| Self::write(t, &operands[0], u64::from(result)));
                Ok(())
            }
            WarpOp::Reduce(op, ty) => {
                let lanes = warp.iter().filter(|t| mask >> t.lane() & 1 == 1);
                let values = lanes.map(|t| self.value(t, &operands[1]));
                let result = values.reduce(|a, b| combine(op, ty, a, (b, 0))).unwrap_or(0);
                for_mask(warp, mask, |t| Self::write(t, &operands[0], result));
                Ok(())
            }
            WarpOp::LoadMatrices { count, transposed } => self.load_matrices((count, transposed), operands, warp),
            WarpOp::StoreMatrices { count, transposed } => self.store_matrices((count, transposed), operands, warp),
            WarpOp::Multiply { k, element, scaled } => self.multiply((k, element, scaled), operands, warp),
        }
    }

    fn shuffle(&self, how: Shuffle, mask: u32, operands: &[Operand], warp: &mut [Thread]) -> Result<(), String> {
        let values: Vec<u64> = warp.iter().map(|t| truncate(self.value(t, &operands[1]), 32)).collect();
        for thread in warp.iter_mut().filter(|t| mask >> t.lane() & 1 == 1) {
            let (b, c) = (self.value(thread, &operands[2]) as i64 & 31, self.value(thread, &operands[3]));
            let lane = i64::from(thread.lane());
            let (clamp, segment) = ((c & 31) as i64, (c >> 8 & 31) as i64);
            let last = lane & segment | clamp & !segment;
            let (source, valid) = match how {
                Shuffle::Up => (lane - b, lane - b >= last),
                Shuffle::Down => (lane + b, lane + b <= last),
                Shuffle::Butterfly => (lane ^ b, lane ^ b <= last),
                Shuffle::Index => {
                    let from = lane & segment | b & !segment;
                    (from, from <= last)
                }
            };
            let source = if valid { source } else { lane };
            if mask >> source & 1 == 0 {
                return Err(format!("lane {lane} reads lane {source}, which is not in the mask {mask:#010x}"));
            }
            let value = values[source as usize];
            match &operands[0] {
                Operand::Pair(pair) => {
                    Self::write(thread, &pair.0, value);
                    Self::write(thread, &pair.1, u64::from(valid));
                }
                to => Self::write(thread, to, value),
            }
        }
        Ok(())
    }
}

fn for_mask(warp: &mut [Thread], mask: u32, mut write: impl FnMut(&mut Thread)) {
    warp.iter_mut().filter(|t| mask >> t.lane() & 1 == 1).for_each(&mut write);
}
