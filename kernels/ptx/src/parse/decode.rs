//! What an opcode asks for. An unknown suffix is an error: skipping one would run something else.

use super::{arithmetic, warp};
use crate::ir::{Atomic, Barrier, Op, Operand};
use crate::memory::Space;
use crate::types::Type;

/// Suffixes of memory accesses that change nothing here: caches, orders, scopes.
const QUIET: [&str; 22] = [
    "nc", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "weak", "gpu", "sys", "cta", "cluster", "ca",
    "cg", "cs", "lu", "cv", "wb", "wt", "v2", "v4", "v8",
];

/// Decodes an opcode with its suffixes.
pub(super) fn opcode(text: &str) -> Result<Op, String> {
    let (name, rest) = text.split_once('.').map_or((text, Vec::new()), |(n, r)| (n, r.split('.').collect()));
    let op = match name {
        "bra" => only(&rest, &["uni"]).then_some(Op::Branch),
        "ret" | "exit" => only(&rest, &["uni"]).then_some(Op::Exit),
        "trap" => rest.is_empty().then_some(Op::Trap),
        "ld" | "ldu" | "st" => access(name == "st", &rest),
        "mov" => one_type(&rest).map(Op::Move),
        "cvta" => address_conversion(&rest),
        "atom" | "red" => atomic(name == "atom", &rest),
        "cp" => copy(&rest),
        // Order between threads is total here; hints change nothing.
        "membar" | "fence" | "prefetch" | "prefetchu" | "nanosleep" | "griddepcontrol" | "applypriority" => {
            Some(Op::Nop)
        }
        "bar" | "barrier" => barrier(&rest),
        "activemask" => Some(Op::ActiveMask),
        _ => arithmetic::decode(name, &rest).or_else(|| warp::decode(name, &rest)),
    };
    op.ok_or_else(|| format!("`{text}` is not interpreted"))
}

fn only(suffixes: &[&str], allowed: &[&str]) -> bool {
    suffixes.iter().all(|s| allowed.contains(s))
}

fn one_type(suffixes: &[&str]) -> Option<Type> {
    match suffixes {
        [ty] => Type::parse(ty),
        _ => None,
    }
}

fn space(name: &str) -> Option<Space> {
    Some(match name {
        "global" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "const" => Space::Module,
        "param" => Space::Param,
        _ => return None,
    })
}

/// Splits off the type, the space, and checks that the others are quiet.
fn memory_suffixes<'s>(suffixes: &[&'s str]) -> Option<(Space, Type, Vec<&'s str>)> {
    let (ty, rest) = suffixes.split_last()?;
    let found = rest.iter().find_map(|s| space(s)).unwrap_or(Space::Generic);
    let is_quiet = |s: &&&str| !(QUIET.contains(*s) || s.starts_with("L1::") || s.starts_with("L2::"));
    let others = rest.iter().filter(|s| space(s).is_none()).filter(is_quiet).copied().collect();
    Some((found, Type::parse(ty)?, others))
}

fn access(store: bool, suffixes: &[&str]) -> Option<Op> {
    let (space, ty, others) = memory_suffixes(suffixes)?;
    let op = if store { Op::Store(space, ty) } else { Op::Load(space, ty) };
    others.is_empty().then_some(op)
}

fn address_conversion(suffixes: &[&str]) -> Option<Op> {
    match suffixes {
        ["to", name, "u64" | "u32"] => space(name).map(Op::FromGeneric),
        [name, "u64" | "u32"] => space(name).map(Op::ToGeneric),
        _ => None,
    }
}

pub(super) fn atomic_name(name: &str) -> Option<Atomic> {
    Some(match name {
        "add" => Atomic::Add,
        "min" => Atomic::Min,
        "max" => Atomic::Max,
        "and" => Atomic::And,
        "or" => Atomic::Or,
        "xor" => Atomic::Xor,
        "exch" => Atomic::Exchange,
        "cas" => Atomic::CompareSwap,
        "inc" => Atomic::Increment,
        "dec" => Atomic::Decrement,
        _ => return None,
    })
}

fn atomic(returns: bool, suffixes: &[&str]) -> Option<Op> {
    let (space, ty, others) = memory_suffixes(suffixes)?;
    match others[..] {
        [name] | [name, "noftz"] => Some(Op::Atomic { op: atomic_name(name)?, space, ty, returns }),
        _ => None,
    }
}

fn copy(suffixes: &[&str]) -> Option<Op> {
    match suffixes {
        ["async", "commit_group"] => Some(Op::CommitCopies),
        ["async", "wait_group"] => Some(Op::WaitCopies),
        ["async", "wait_all"] => Some(Op::WaitAllCopies),
        ["async", "ca" | "cg", "shared" | "shared::cta", "global", rest @ ..] => {
            rest.iter().all(|s| s.starts_with("L2::")).then_some(Op::CopyAsync)
        }
        _ => None,
    }
}

fn barrier(suffixes: &[&str]) -> Option<Op> {
    let suffixes = match suffixes {
        ["cta", rest @ ..] => rest,
        rest => rest,
    };
    match suffixes {
        ["sync"] | ["sync", "aligned"] => Some(Op::Barrier(Barrier::Sync)),
        ["arrive"] | ["arrive", "aligned"] => Some(Op::Barrier(Barrier::Arrive)),
        ["warp", "sync"] => Some(Op::Warp(crate::ir::WarpOp::Sync)),
        ["red", op, rest @ ..] => {
            let kind = match *op {
                "and" => Barrier::And,
                "or" => Barrier::Or,
                "popc" => Barrier::PopCount,
                _ => return None,
            };
            rest.iter().all(|s| ["aligned", "pred", "u32"].contains(s)).then_some(Op::Barrier(kind))
        }
        _ => None,
    }
}

/// The number of operands, which executing relies on.
pub(super) fn check(op: Op, operands: &[Operand]) -> Result<(), String> {
    let (least, most) = match op {
        Op::Nop | Op::Exit | Op::Trap | Op::CommitCopies | Op::WaitAllCopies => (0, 0),
        Op::Branch | Op::WaitCopies | Op::ActiveMask => (1, 1),
        Op::Load(..) | Op::Store(..) | Op::Move(_) | Op::ToGeneric(_) | Op::FromGeneric(_) => (2, 2),
        Op::Integer(op, _) => arithmetic::integer_operands(op),
        Op::Predicate(op) => arithmetic::integer_operands(op),
        Op::Float(op, ..) => arithmetic::float_operands(op),
        Op::SetPredicate(_, logic, _) => (3 + usize::from(logic.is_some()), 3 + usize::from(logic.is_some())),
        Op::Select(_) => (4, 4),
        Op::Convert(c) => arithmetic::convert_operands(c),
        Op::Atomic { op, returns, .. } => {
            let n = 2 + usize::from(op == Atomic::CompareSwap) + usize::from(returns);
            (n, n)
        }
        Op::CopyAsync => (3, 4),
        Op::Barrier(Barrier::Sync) => (1, 2),
        Op::Barrier(Barrier::Arrive) => (2, 2),
        Op::Barrier(_) => (3, 4),
        Op::Warp(op) => warp::operands(op),
    };
    if (least..=most).contains(&operands.len()) {
        return Ok(());
    }
    Err(format!("{} operands, {least} to {most} are interpreted", operands.len()))
}
