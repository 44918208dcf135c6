//! One instruction of one thread.

use super::block::Block;
use super::copies::Copy;
use super::thread::{State, Thread};
use super::{convert, float, integer};
use crate::ir::{Barrier, Instruction, Logic, Op, Operand, Test, WarpOp};
use crate::memory::{Space, number};
use crate::types::{Type, truncate};

impl Block<'_> {
    /// Runs the instruction at the thread's place, or lets the thread wait there.
    pub(super) fn step(&mut self, thread: &mut Thread) -> Result<(), String> {
        let kernel = self.launch.kernel;
        let Some(instruction) = kernel.code.get(thread.pc) else {
            thread.state = State::Ended;
            return Ok(());
        };
        if let Some((register, wanted)) = instruction.guard
            && (thread.registers[register] & 1 == 1) != wanted
        {
            thread.pc += 1;
            return Ok(());
        }
        match instruction.op {
            Op::Branch => {
                let Operand::Label(at) = instruction.operands[0] else { return Err("a label is expected".into()) };
                thread.pc = at;
                return Ok(());
            }
            Op::Exit => {
                thread.state = State::Ended;
                return Ok(());
            }
            Op::Trap => return Err("the kernel gave up".into()),
            Op::Barrier(kind) => return self.arrive(thread, instruction, kind),
            Op::Warp(op) => return self.enter_warp_op(thread, instruction, op),
            _ => self.scalar(thread, instruction)?,
        }
        thread.pc += 1;
        Ok(())
    }

    fn scalar(&mut self, thread: &mut Thread, i: &Instruction) -> Result<(), String> {
        let operands = &i.operands;
        match i.op {
            Op::Load(space, ty) => self.load(thread, (space, ty), operands),
            Op::Store(space, ty) => self.store(thread, (space, ty), operands),
            Op::Move(ty) => self.move_bits(thread, ty, operands),
            Op::Atomic { op, space, ty, returns } => {
                let from = usize::from(returns);
                let at = (space, self.address(thread, &operands[from])?);
                let value = |n: usize| operands.get(n).map_or(0, |o| self.value(thread, o));
                let inputs = (value(from + 1), value(from + 2));
                let old = self.atomic(thread, (op, ty), at, inputs)?;
                if returns {
                    Self::write(thread, &operands[0], old);
                }
                Ok(())
            }
            Op::CopyAsync => self.start_copy(thread, operands),
            Op::CommitCopies => {
                thread.copies.commit();
                Ok(())
            }
            Op::WaitCopies => {
                let pending = self.value(thread, &operands[0]) as usize;
                self.land_copies(thread, pending)
            }
            Op::WaitAllCopies => {
                thread.copies.commit();
                self.land_copies(thread, 0)
            }
            Op::SetPredicate(test, logic, ty) => {
                self.set_predicate(thread, (test, logic, ty), operands);
                Ok(())
            }
            _ => {
                let value = self.compute(thread, i.op, operands)?;
                Self::write(thread, &operands[0], value);
                Ok(())
            }
        }
    }

    /// Operations with one result and scalar operands.
    fn compute(&self, thread: &Thread, op: Op, operands: &[Operand]) -> Result<u64, String> {
        let value = |n: usize| operands.get(n).map_or(0, |o| self.value(thread, o));
        let inputs = [value(1), value(2), value(3), value(4)];
        Ok(match op {
            Op::Integer(op, ty) => integer::compute(op, ty, inputs)?,
            Op::Predicate(op) => integer::compute(op, Type::Pred, inputs)?,
            Op::Float(op, ty, mode) => float::compute(op, ty, mode, inputs),
            Op::Convert(c) => convert::convert(c, inputs[0], inputs[1]),
            Op::Select(ty) => ty.truncate(if inputs[2] & 1 == 1 { inputs[0] } else { inputs[1] }),
            Op::ToGeneric(space) => inputs[0].wrapping_add(space.window()),
            Op::FromGeneric(space) => inputs[0].wrapping_sub(space.window()),
            Op::ActiveMask => self.active_mask(),
            other => return Err(format!("{other:?} is no computation")),
        })
    }

    /// Threads run one after another, so a warp never looks converged; all its lanes is an answer that is allowed.
    fn active_mask(&self) -> u64 {
        let threads: u32 = self.launch.block.iter().product();
        truncate(u64::MAX, threads.min(32))
    }

    fn load(&self, thread: &mut Thread, (space, ty): (Space, Type), operands: &[Operand]) -> Result<(), String> {
        let at = self.address(thread, &operands[1])?;
        let parts = parts(&operands[0]);
        let size = ty.bytes();
        let bytes = self.read(thread, (space, at), size * parts.len())?;
        let extend = |part: &[u8]| if ty.is_signed() { ty.integer(number(part)) as u64 } else { number(part) };
        let values: Vec<u64> = bytes.chunks_exact(size).map(extend).collect();
        parts.iter().zip(values).for_each(|(to, value)| Self::write(thread, to, value));
        Ok(())
    }

    fn store(&mut self, thread: &mut Thread, (space, ty): (Space, Type), operands: &[Operand]) -> Result<(), String> {
        let at = self.address(thread, &operands[0])?;
        let size = ty.bytes();
        let values: Vec<u64> = parts(&operands[1]).iter().map(|o| self.value(thread, o)).collect();
        let memory = self.place(thread, (space, at), size * values.len())?;
        for (to, value) in memory.chunks_exact_mut(size).zip(values) {
            to.copy_from_slice(&value.to_le_bytes()[..size]);
        }
        Ok(())
    }

    /// Also splits a register into parts, and joins parts.
    fn move_bits(&self, thread: &mut Thread, ty: Type, operands: &[Operand]) -> Result<(), String> {
        match (&operands[0], &operands[1]) {
            (Operand::Vector(to), from) => {
                let (value, width) = (self.value(thread, from), ty.bits() / to.len().max(1) as u32);
                for (i, part) in to.iter().enumerate() {
                    Self::write(thread, part, truncate(value >> (width * i as u32), width));
                }
            }
            (to, Operand::Vector(from)) => {
                let width = ty.bits() / from.len().max(1) as u32;
                let join = |all, (i, part)| all | truncate(self.value(thread, part), width) << (width * i as u32);
                let value = from.iter().enumerate().fold(0, join);
                Self::write(thread, to, value);
            }
            (to, from) => {
                let value = ty.truncate(self.value(thread, from));
                Self::write(thread, to, value);
            }
        }
        Ok(())
    }

    fn set_predicate(&self, thread: &mut Thread, (test, logic, ty): (Test, Option<Logic>, Type), operands: &[Operand]) {
        let (a, b) = (self.value(thread, &operands[1]), self.value(thread, &operands[2]));
        let found = if ty.is_float() { float::test(test, ty, a, b) } else { integer::test(test, ty, a, b) };
        let other = operands.get(3).is_some_and(|o| self.value(thread, o) & 1 == 1);
        let combine = |t: bool| match logic {
            None => t,
            Some(Logic::And) => t && other,
            Some(Logic::Or) => t || other,
            Some(Logic::Xor) => t != other,
        };
        match &operands[0] {
            Operand::Pair(pair) => {
                Self::write(thread, &pair.0, u64::from(combine(found)));
                Self::write(thread, &pair.1, u64::from(combine(!found)));
            }
            to => Self::write(thread, to, u64::from(combine(found))),
        }
    }

    fn start_copy(&mut self, thread: &mut Thread, operands: &[Operand]) -> Result<(), String> {
        let (to, from) = (self.address(thread, &operands[0])?, self.address(thread, &operands[1])?);
        let bytes = self.value(thread, &operands[2]) as usize;
        let filled = operands.get(3).map_or(bytes, |o| truncate(self.value(thread, o), 32) as usize);
        if ![4, 8, 16].contains(&bytes) || filled > bytes {
            return Err(format!("copies have 4, 8 or 16 bytes, not {filled} of {bytes}"));
        }
        // In flight: neither the old nor the new contents may be relied on.
        self.place(thread, (Space::Shared, to), bytes)?.fill(0xff);
        if filled > 0 {
            self.read(thread, (Space::Global, from), bytes)?;
        }
        thread.copies.start(Copy { to, from, bytes, filled });
        Ok(())
    }

    fn land_copies(&mut self, thread: &mut Thread, pending: usize) -> Result<(), String> {
        for copy in thread.copies.wait(pending) {
            let mut bytes = vec![0; copy.bytes];
            if copy.filled > 0 {
                bytes[..copy.filled]
                    .copy_from_slice(&self.read(thread, (Space::Global, copy.from), copy.bytes)?[..copy.filled]);
            }
            self.place(thread, (Space::Shared, copy.to), copy.bytes)?.copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn arrive(&mut self, thread: &mut Thread, i: &Instruction, kind: Barrier) -> Result<(), String> {
        // `bar.red` has its result in front and its predicate behind.
        let first = usize::from(matches!(kind, Barrier::And | Barrier::Or | Barrier::PopCount));
        let id = self.value(thread, &i.operands[first]);
        let has_count = i.operands.len() > 2 * first + 1;
        let threads = if has_count { self.value(thread, &i.operands[first + 1]) } else { 0 };
        if id > 15 || !threads.is_multiple_of(32) {
            return Err(format!("barrier {id} for {threads} threads"));
        }
        if kind == Barrier::Arrive {
            self.announce(id);
            thread.pc += 1;
        } else {
            thread.state = State::AtBarrier { pc: thread.pc, id, threads };
        }
        Ok(())
    }

    fn enter_warp_op(&mut self, thread: &mut Thread, i: &Instruction, op: WarpOp) -> Result<(), String> {
        let mask = match op {
            WarpOp::Sync => self.value(thread, &i.operands[0]),
            WarpOp::Shuffle(_) => self.value(thread, &i.operands[4]),
            WarpOp::Vote(_) | WarpOp::Reduce(..) => self.value(thread, &i.operands[2]),
            _ => 0xffff_ffff,
        };
        let first = thread.id - thread.lane();
        let threads: u32 = self.launch.block.iter().product();
        // A partial last warp has no more lanes than threads.
        let lanes = truncate(u64::MAX, (threads - first).min(32)) as u32;
        let mask = mask as u32 & lanes;
        if mask >> thread.lane() & 1 == 0 {
            return Err(format!("lane {} is not in its own mask {mask:#010x}", thread.lane()));
        }
        thread.state = State::AtWarpOp { pc: thread.pc, mask };
        Ok(())
    }
}

fn parts(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(all) => all,
        one => std::slice::from_ref(one),
    }
}
