//! Operands and memory as a thread sees them.

use super::block::Block;
use super::thread::Thread;
use crate::ir::{Atomic, Compare, Operand, Special};
use crate::memory::{Space, number, window, window_mut};
use crate::types::{Type, truncate};

impl Block<'_> {
    /// Bits of an operand that is no vector and no address.
    pub(super) fn value(&self, thread: &Thread, operand: &Operand) -> u64 {
        match operand {
            Operand::Register(r) => thread.registers[*r],
            Operand::Not(r) => thread.registers[*r] & 1 ^ 1,
            Operand::Immediate(v) => *v,
            Operand::Special(s) => self.special(thread, *s),
            Operand::Sink | Operand::Vector(_) | Operand::Pair(_) | Operand::Address(..) | Operand::Label(_) => 0,
        }
    }

    fn special(&self, thread: &Thread, special: Special) -> u64 {
        let size = self.launch.block;
        let at = [thread.id % size[0], thread.id / size[0] % size[1], thread.id / size[0] / size[1]];
        let lane = thread.lane();
        let below = (1u64 << lane) - 1;
        match special {
            Special::Thread(axis) => u64::from(at[axis]),
            Special::BlockSize(axis) => u64::from(size[axis]),
            Special::Block(axis) => u64::from(self.place[axis]),
            Special::Grid(axis) => u64::from(self.launch.grid[axis]),
            Special::Lane => u64::from(lane),
            Special::Warp => u64::from(thread.id / 32),
            Special::LaneMask(compare) => match compare {
                Compare::Eq => 1 << lane,
                Compare::Lt => below,
                Compare::Le => below | 1 << lane,
                Compare::Gt => !(below | 1 << lane) & 0xffff_ffff,
                Compare::Ge | Compare::Ne => !below & 0xffff_ffff,
            },
            Special::Clock => self.steps,
            Special::DynamicShared => self.launch.dynamic_shared as u64,
            Special::DynamicSharedAt => self.dynamic_at,
        }
    }

    /// Writes a result; only registers keep it.
    pub(super) fn write(thread: &mut Thread, to: &Operand, value: u64) {
        if let Operand::Register(r) = to {
            thread.registers[*r] = value;
        }
    }

    /// Where an address operand points to.
    pub(super) fn address(&self, thread: &Thread, operand: &Operand) -> Result<u64, String> {
        match operand {
            Operand::Address(base, offset) => Ok(self.value(thread, base).wrapping_add(*offset as u64)),
            _ => Err("an address is expected".into()),
        }
    }

    /// Bytes at an address, which must be aligned to their number (or to 16).
    pub(super) fn read<'t>(
        &'t self,
        thread: &'t Thread,
        (space, at): (Space, u64),
        bytes: usize,
    ) -> Result<&'t [u8], String> {
        aligned(at, bytes)?;
        match resolve(space, at) {
            (Space::Shared, at) => window("shared", &self.shared, at, bytes),
            (Space::Local, at) => window("local", &thread.local, at, bytes),
            (Space::Module, at) => window("module variable", &self.launch.kernel.variables, at, bytes),
            (Space::Param, at) => window("parameter", &self.launch.parameters, at, bytes),
            (_, at) => self.memory.read(at, bytes),
        }
    }

    /// As [`Self::read`], to change them.
    pub(super) fn place<'t>(
        &'t mut self,
        thread: &'t mut Thread,
        (space, at): (Space, u64),
        bytes: usize,
    ) -> Result<&'t mut [u8], String> {
        aligned(at, bytes)?;
        match resolve(space, at) {
            (Space::Shared, at) => window_mut("shared", &mut self.shared, at, bytes),
            (Space::Local, at) => window_mut("local", &mut thread.local, at, bytes),
            (Space::Module | Space::Param, _) => {
                Err("variables of the module and parameters are read-only here".into())
            }
            (_, at) => self.memory.slice_mut(at, bytes),
        }
    }

    pub(super) fn atomic(
        &mut self,
        thread: &mut Thread,
        (op, ty): (Atomic, Type),
        at: (Space, u64),
        operands: (u64, u64),
    ) -> Result<u64, String> {
        let memory = self.place(thread, at, ty.bytes())?;
        let old = number(memory);
        let new = if ty.is_float() { float_atomic(op, ty, old, operands.0)? } else { combine(op, ty, old, operands) };
        memory.copy_from_slice(&new.to_le_bytes()[..ty.bytes()]);
        Ok(old)
    }
}

fn resolve(space: Space, at: u64) -> (Space, u64) {
    match space {
        Space::Generic | Space::Global | Space::Module => Space::of_generic(at),
        // Offsets of 32 bits, whose arithmetic wraps.
        Space::Shared | Space::Local => (space, truncate(at, 32)),
        _ => (space, at),
    }
}

fn aligned(at: u64, bytes: usize) -> Result<(), String> {
    if at.is_multiple_of(bytes.clamp(1, 16) as u64) {
        return Ok(());
    }
    Err(format!("address {at:#x} is not aligned to {} bytes", bytes.min(16)))
}

/// What memory holds after an atomic operation; also the step of `redux`.
pub(super) fn combine(op: Atomic, ty: Type, old: u64, (a, b): (u64, u64)) -> u64 {
    let (x, y) = (ty.integer(old), ty.integer(a));
    let new = match op {
        Atomic::Add => (x + y) as u64,
        Atomic::Min => x.min(y) as u64,
        Atomic::Max => x.max(y) as u64,
        Atomic::And => old & a,
        Atomic::Or => old | a,
        Atomic::Xor => old ^ a,
        Atomic::Exchange => a,
        Atomic::CompareSwap => {
            if x == y {
                b
            } else {
                old
            }
        }
        Atomic::Increment => {
            if x >= y {
                0
            } else {
                old + 1
            }
        }
        Atomic::Decrement => {
            if x == 0 || x > y {
                a
            } else {
                old - 1
            }
        }
    };
    ty.truncate(new)
}

fn float_atomic(op: Atomic, ty: Type, old: u64, a: u64) -> Result<u64, String> {
    match op {
        Atomic::Add => Ok(super::float::add(ty, old, a)),
        Atomic::Exchange => Ok(a),
        _ => Err(format!("{op:?} of {ty:?} is not interpreted")),
    }
}
