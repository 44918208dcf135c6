//! Integer arithmetic and logic.

use crate::ir::{Compare, Half, Integer, Test};
use crate::types::{Type, sign_extend, truncate};

/// The result's bits; operands are `a, b, c, d` in order.
pub(super) fn compute(op: Integer, ty: Type, [a, b, c, d]: [u64; 4]) -> Result<u64, String> {
    let (x, y, z) = (ty.integer(a), ty.integer(b), ty.integer(c));
    let bits = ty.bits();
    let shift = b as u32;
    let result = match op {
        Integer::Add => x + y,
        Integer::Sub => x - y,
        Integer::Mul(half) => return Ok(product(ty, half, x * y, 0)),
        Integer::Mad(Half::Wide) => return Ok(product(ty, Half::Wide, x * y, wide(ty).integer(c))),
        Integer::Mad(half) => return Ok(product(ty, half, x * y, z)),
        Integer::Div | Integer::Rem if y == 0 => return Err("a division by zero".into()),
        Integer::Div => x / y,
        Integer::Rem => x % y,
        Integer::Min => x.min(y),
        Integer::Max => x.max(y),
        Integer::Abs => x.abs(),
        Integer::Neg => -x,
        Integer::And => x & y,
        Integer::Or => x | y,
        Integer::Xor => x ^ y,
        Integer::Not => !x,
        Integer::CNot => i128::from(x == 0),
        Integer::Shl if shift >= bits => 0,
        Integer::Shl => x << shift,
        // Of a signed number all bits become its sign.
        Integer::Shr => x >> shift.min(bits),
        Integer::PopCount => return Ok(u64::from(ty.truncate(a).count_ones())),
        Integer::LeadingZeros => return Ok(u64::from(ty.truncate(a).leading_zeros() - (64 - bits))),
        Integer::Reverse => return Ok(a.reverse_bits() >> (64 - bits)),
        Integer::Extract => return Ok(extract(ty, a, b, c)),
        Integer::Insert => return Ok(insert(ty, a, b, c, d)),
        Integer::Lop3 => return Ok(lop3([a, b, c], d)),
        Integer::FunnelLeft(wrap) => return Ok(funnel(a, b, distance(c, wrap), true)),
        Integer::FunnelRight(wrap) => return Ok(funnel(a, b, distance(c, wrap), false)),
        Integer::Permute => return Ok(permute(a, b, c)),
    };
    Ok(ty.truncate(result as u64))
}

fn wide(ty: Type) -> Type {
    if ty.is_signed() { Type::Signed(2 * ty.bits()) } else { Type::Unsigned(2 * ty.bits()) }
}

fn product(ty: Type, half: Half, product: i128, addend: i128) -> u64 {
    match half {
        Half::Low => ty.truncate((product + addend) as u64),
        Half::High => ty.truncate(((product >> ty.bits()) + addend) as u64),
        Half::Wide => wide(ty).truncate((product + addend) as u64),
    }
}

/// `bfe`: a field, extended by its sign if the type has one.
fn extract(ty: Type, a: u64, from: u64, len: u64) -> u64 {
    let (from, len, bits) = ((from & 0xff) as u32, (len & 0xff) as u32, ty.bits());
    if len == 0 {
        return 0;
    }
    let source = if ty.is_signed() { sign_extend(ty.truncate(a), bits) as i128 } else { i128::from(ty.truncate(a)) };
    let field = source >> from.min(bits);
    let len = len.min(bits);
    let value = truncate(field as u64, len);
    ty.truncate(if ty.is_signed() { sign_extend(value, len) as u64 } else { value })
}

/// `bfi`: the low bits of `a` in the place of a field of `b`.
fn insert(ty: Type, a: u64, b: u64, from: u64, len: u64) -> u64 {
    let (from, len) = ((from & 0xff) as u32, (len & 0xff) as u32);
    if from >= ty.bits() {
        return ty.truncate(b);
    }
    let mask = truncate(u64::MAX, len.min(64)) << from;
    ty.truncate(b & !mask | a << from & mask)
}

/// Bit `i` of the table is the result for inputs whose bits are those of `i`.
fn lop3(inputs: [u64; 3], table: u64) -> u64 {
    let terms = (0..8u64).filter(|i| table >> i & 1 == 1).map(|i| {
        let pick = |n: usize, bit: u64| if i >> bit & 1 == 1 { inputs[n] } else { !inputs[n] };
        pick(0, 2) & pick(1, 1) & pick(2, 0)
    });
    truncate(terms.fold(0, |all, t| all | t), 32)
}

fn distance(c: u64, wrap: bool) -> u32 {
    let c = truncate(c, 32) as u32;
    if wrap { c & 31 } else { c.min(32) }
}

/// `shf`: the upper word of `b:a` shifted left, or the lower one shifted right.
fn funnel(a: u64, b: u64, distance: u32, left: bool) -> u64 {
    let both = truncate(b, 32) << 32 | truncate(a, 32);
    if left { truncate((u128::from(both) << distance >> 32) as u64, 32) } else { truncate(both >> distance, 32) }
}

/// `prmt` in its default mode: each nibble of the selector picks a byte of `b:a`, or the byte's sign eight times.
fn permute(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = (truncate(b, 32) << 32 | truncate(a, 32)).to_le_bytes();
    let pick = |i: u64| {
        let nibble = selector >> (4 * i) & 15;
        let byte = bytes[(nibble & 7) as usize];
        if nibble & 8 == 0 { u64::from(byte) } else { u64::from(byte >> 7) * 0xff }
    };
    (0..4).fold(0, |all, i| all | pick(i) << (8 * i))
}

/// A comparison; without a sign for untyped operands.
pub(super) fn test(test: Test, ty: Type, a: u64, b: u64) -> bool {
    let order = ty.integer(a).cmp(&ty.integer(b));
    match test {
        Test::Ordered(c) | Test::Unordered(c) => holds(c, Some(order)),
        Test::Numbers => true,
        Test::Nan => false,
    }
}

/// Whether an order is as wanted; None is that of NaN.
pub(super) fn holds(compare: Compare, order: Option<std::cmp::Ordering>) -> bool {
    order.is_some_and(|o| match compare {
        Compare::Eq => o.is_eq(),
        Compare::Ne => o.is_ne(),
        Compare::Lt => o.is_lt(),
        Compare::Le => o.is_le(),
        Compare::Gt => o.is_gt(),
        Compare::Ge => o.is_ge(),
    })
}
