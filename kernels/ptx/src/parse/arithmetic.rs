//! Decoding of arithmetic: integers, floats, comparisons, conversions.

use crate::ir::{Compare, Convert, Float, FloatMode, Half, Integer, Logic, Op, Rounding, Test};
use crate::types::Type;

/// Decodes an opcode of this kind.
pub(super) fn decode(name: &str, suffixes: &[&str]) -> Option<Op> {
    match name {
        "setp" => return set_predicate(suffixes),
        "cvt" => return convert(suffixes),
        "selp" => return Some(Op::Select(Type::parse(suffixes.first()?)?)).filter(|_| suffixes.len() == 1),
        _ => {}
    }
    let (last, modifiers) = suffixes.split_last()?;
    let ty = Type::parse(last)?;
    if ty.is_float() { float(name, modifiers, ty) } else { integer(name, modifiers, ty) }
}

fn integer(name: &str, modifiers: &[&str], ty: Type) -> Option<Op> {
    let op = match (name, modifiers) {
        ("mul", [half]) => Integer::Mul(half_of(half)?),
        ("mad", [half]) => Integer::Mad(half_of(half)?),
        ("shf", ["l", mode]) => Integer::FunnelLeft(wraps(mode)?),
        ("shf", ["r", mode]) => Integer::FunnelRight(wraps(mode)?),
        (_, []) => plain_integer(name)?,
        _ => return None,
    };
    Some(if ty == Type::Pred { Op::Predicate(op) } else { Op::Integer(op, ty) })
}

fn plain_integer(name: &str) -> Option<Integer> {
    Some(match name {
        "add" => Integer::Add,
        "sub" => Integer::Sub,
        "div" => Integer::Div,
        "rem" => Integer::Rem,
        "min" => Integer::Min,
        "max" => Integer::Max,
        "abs" => Integer::Abs,
        "neg" => Integer::Neg,
        "and" => Integer::And,
        "or" => Integer::Or,
        "xor" => Integer::Xor,
        "not" => Integer::Not,
        "cnot" => Integer::CNot,
        "shl" => Integer::Shl,
        "shr" => Integer::Shr,
        "popc" => Integer::PopCount,
        "clz" => Integer::LeadingZeros,
        "brev" => Integer::Reverse,
        "bfe" => Integer::Extract,
        "bfi" => Integer::Insert,
        "lop3" => Integer::Lop3,
        "prmt" => Integer::Permute,
        _ => return None,
    })
}

fn half_of(name: &str) -> Option<Half> {
    Some(match name {
        "lo" => Half::Low,
        "hi" => Half::High,
        "wide" => Half::Wide,
        _ => return None,
    })
}

fn wraps(mode: &str) -> Option<bool> {
    match mode {
        "wrap" => Some(true),
        "clamp" => Some(false),
        _ => None,
    }
}

fn float(name: &str, modifiers: &[&str], ty: Type) -> Option<Op> {
    let op = match name {
        "add" => Float::Add,
        "sub" => Float::Sub,
        "mul" => Float::Mul,
        "fma" | "mad" => Float::Fma,
        "div" => Float::Div,
        "min" => Float::Min,
        "max" => Float::Max,
        "neg" => Float::Neg,
        "abs" => Float::Abs,
        "sqrt" => Float::Sqrt,
        "rsqrt" => Float::Rsqrt,
        "rcp" => Float::Rcp,
        "ex2" => Float::Exp2,
        "lg2" => Float::Log2,
        "sin" => Float::Sin,
        "cos" => Float::Cos,
        "tanh" => Float::Tanh,
        "copysign" => Float::CopySign,
        _ => return None,
    };
    let mut mode = FloatMode::default();
    for modifier in modifiers {
        match *modifier {
            "ftz" => mode.flush = true,
            "sat" => mode.saturate = true,
            "NaN" => mode.nan = true,
            "relu" => mode.relu = true,
            // Round to nearest even is what is done; the approximate forms are rounded once.
            "rn" | "approx" | "full" => {}
            _ => return None,
        }
    }
    Some(Op::Float(op, ty, mode))
}

fn compare(name: &str) -> Option<Compare> {
    Some(match name {
        "eq" => Compare::Eq,
        "ne" => Compare::Ne,
        "lt" | "lo" => Compare::Lt,
        "le" | "ls" => Compare::Le,
        "gt" | "hi" => Compare::Gt,
        "ge" | "hs" => Compare::Ge,
        _ => return None,
    })
}

fn set_predicate(suffixes: &[&str]) -> Option<Op> {
    let (first, rest) = suffixes.split_first()?;
    let (last, modifiers) = rest.split_last()?;
    let test = match (*first, first.strip_suffix('u').and_then(compare)) {
        ("num", _) => Test::Numbers,
        ("nan", _) => Test::Nan,
        (_, Some(unordered)) => Test::Unordered(unordered),
        (name, None) => Test::Ordered(compare(name)?),
    };
    let logic = match modifiers {
        [] | ["ftz"] => None,
        ["and", ..] => Some(Logic::And),
        ["or", ..] => Some(Logic::Or),
        ["xor", ..] => Some(Logic::Xor),
        _ => return None,
    };
    Some(Op::SetPredicate(test, logic, Type::parse(last)?))
}

fn convert(suffixes: &[&str]) -> Option<Op> {
    let [modifiers @ .., to, from] = suffixes else { return None };
    let (to, from) = (Type::parse(to)?, Type::parse(from)?);
    let mut c = Convert { to, from, integral: None, rounding: None, mode: FloatMode::default() };
    for modifier in modifiers {
        match *modifier {
            "rn" => c.rounding = Some(Rounding::Nearest),
            "rz" => c.rounding = Some(Rounding::Zero),
            "rp" => c.rounding = Some(Rounding::Up),
            "rm" => c.rounding = Some(Rounding::Down),
            "rni" => c.integral = Some(Rounding::Nearest),
            "rzi" => c.integral = Some(Rounding::Zero),
            "rmi" => c.integral = Some(Rounding::Down),
            "rpi" => c.integral = Some(Rounding::Up),
            "ftz" => c.mode.flush = true,
            "sat" | "satfinite" => c.mode.saturate = true,
            "relu" => c.mode.relu = true,
            _ => return None,
        }
    }
    is_convertible(c).then_some(Op::Convert(c))
}

/// Whether [`crate::run`] knows the pair; rounding to zero is known for bf16 and E8M0 only.
fn is_convertible(c: Convert) -> bool {
    let scalar = |t: Type| t.is_integer() || matches!(t, Type::F16 | Type::Bf16 | Type::F32 | Type::F64);
    match (c.to, c.from) {
        (Type::F16x2 | Type::Bf16x2 | Type::E4m3x2 | Type::E5m2x2 | Type::E2m1x2, Type::F32) => {
            c.rounding == Some(Rounding::Nearest)
        }
        (Type::Ue8m0x2, Type::F32) => matches!(c.rounding, Some(Rounding::Zero | Rounding::Up)),
        (Type::F16x2, Type::E4m3x2 | Type::E5m2x2 | Type::E2m1x2) | (Type::Bf16x2, Type::Ue8m0x2) => true,
        (to, from) => scalar(to) && scalar(from) && matches!(c.rounding, None | Some(Rounding::Nearest)),
    }
}

pub(super) fn integer_operands(op: Integer) -> (usize, usize) {
    use Integer::*;
    let n = match op {
        Abs | Neg | Not | CNot | PopCount | LeadingZeros | Reverse => 2,
        Mad(_) | Extract | FunnelLeft(_) | FunnelRight(_) | Permute => 4,
        Insert | Lop3 => 5,
        _ => 3,
    };
    (n, n)
}

pub(super) fn float_operands(op: Float) -> (usize, usize) {
    match op {
        Float::Fma => (4, 4),
        Float::Add | Float::Sub | Float::Mul | Float::Div | Float::Min | Float::Max | Float::CopySign => (3, 3),
        _ => (2, 2),
    }
}

/// Two numbers become a pair.
pub(super) fn convert_operands(c: Convert) -> (usize, usize) {
    let n =
        if c.from == Type::F32 && !matches!(c.to, Type::F16 | Type::Bf16 | Type::F32 | Type::F64) && !c.to.is_integer()
        {
            3
        } else {
            2
        };
    (n, n)
}
