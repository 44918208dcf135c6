//! Decoding of what a warp does together.

use super::decode::atomic_name;
use crate::ir::{Element, Op, Shuffle, Vote, WarpOp};
use crate::types::Type;

/// Decodes an opcode of this kind.
pub(super) fn decode(name: &str, suffixes: &[&str]) -> Option<Op> {
    let op = match (name, suffixes) {
        ("shfl", ["sync", how, "b32"]) => WarpOp::Shuffle(shuffle(how)?),
        ("vote", ["sync", "all", "pred"]) => WarpOp::Vote(Vote::All),
        ("vote", ["sync", "any", "pred"]) => WarpOp::Vote(Vote::Any),
        ("vote", ["sync", "uni", "pred"]) => WarpOp::Vote(Vote::Uniform),
        ("vote", ["sync", "ballot", "b32"]) => WarpOp::Vote(Vote::Ballot),
        ("redux", ["sync", op, ty]) => WarpOp::Reduce(atomic_name(op)?, Type::parse(ty)?),
        ("ldmatrix", ["sync", "aligned", "m8n8", rest @ ..]) => {
            let (count, transposed) = matrices(rest)?;
            WarpOp::LoadMatrices { count, transposed }
        }
        ("stmatrix", ["sync", "aligned", "m8n8", rest @ ..]) => {
            let (count, transposed) = matrices(rest)?;
            WarpOp::StoreMatrices { count, transposed }
        }
        ("mma", ["sync", "aligned", rest @ ..]) => multiply(rest)?,
        _ => return None,
    };
    Some(Op::Warp(op))
}

fn shuffle(name: &str) -> Option<Shuffle> {
    Some(match name {
        "up" => Shuffle::Up,
        "down" => Shuffle::Down,
        "bfly" => Shuffle::Butterfly,
        "idx" => Shuffle::Index,
        _ => return None,
    })
}

/// `x4.trans.shared.b16`.
fn matrices(suffixes: &[&str]) -> Option<(usize, bool)> {
    let (count, rest) = suffixes.split_first()?;
    let count = match *count {
        "x1" => 1,
        "x2" => 2,
        "x4" => 4,
        _ => return None,
    };
    match rest {
        ["shared" | "shared::cta", "b16"] => Some((count, false)),
        ["trans", "shared" | "shared::cta", "b16"] => Some((count, true)),
        _ => None,
    }
}

fn element(name: &str) -> Option<Element> {
    Some(match name {
        "bf16" => Element::Bf16,
        "f16" => Element::F16,
        "e4m3" => Element::E4m3,
        "e5m2" => Element::E5m2,
        "e2m1" => Element::E2m1,
        "s8" => Element::S8,
        _ => return None,
    })
}

fn multiply(suffixes: &[&str]) -> Option<WarpOp> {
    let (scaled, suffixes) = match suffixes {
        ["kind::mxf4nvf4", "block_scale", "scale_vec::4X", rest @ .., "ue4m3"] => (true, rest),
        ["kind::f8f6f4", rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let [shape, "row", "col", d, a, b, c] = suffixes else { return None };
    let element = element(a).filter(|_| a == b && c == d)?;
    let accumulator = if element == Element::S8 { "s32" } else { "f32" };
    let k: usize = shape.strip_prefix("m16n8k")?.parse().ok()?;
    let whole = 256 / element.bits();
    let fits = *d == accumulator && (k == whole || (k == whole / 2 && !scaled)) && scaled == (element == Element::E2m1);
    fits.then_some(WarpOp::Multiply { k, element, scaled })
}

pub(super) fn operands(op: WarpOp) -> (usize, usize) {
    let n = match op {
        WarpOp::Sync => 1,
        WarpOp::Shuffle(_) => 5,
        WarpOp::Vote(_) | WarpOp::Reduce(..) => 3,
        WarpOp::LoadMatrices { .. } | WarpOp::StoreMatrices { .. } => 2,
        WarpOp::Multiply { scaled: false, .. } => 4,
        WarpOp::Multiply { scaled: true, .. } => 8,
    };
    (n, n)
}
