//! Integer arithmetic, logic, loops and scopes.

use proptest::prelude::*;

use super::{LANES, Launch, bytes, words};

const TEXT: &str = include_str!("../snippets/integer.ptx");

/// What the kernel computes, in its order.
fn expected(a: u32, b: u32, c: u32) -> [u32; 27] {
    let (x, y, z) = (a as i32, b as i32, c as i32);
    let (odd, shift) = (b | 1, c & 63);
    let wide = i64::from(x) * i64::from(y);
    let beyond = shift >= 32;
    let both = u64::from(b) << 32 | u64::from(a);
    let flags = u32::from(x < y) + 2 * u32::from(a < b) + 4 * u32::from(a != c && x < y);
    let field = a >> 5 & 0x7ff;
    let select = [a.to_le_bytes()[0], b.to_le_bytes()[1], a.to_le_bytes()[2], b.to_le_bytes()[3]];
    [
        a.wrapping_add(b),
        a.wrapping_sub(b),
        a.wrapping_mul(b),
        (wide >> 32) as u32,
        ((u64::from(a) * u64::from(b)) >> 32) as u32,
        x.wrapping_mul(y).wrapping_add(z) as u32,
        (wide as u64 >> 16) as u32,
        x.wrapping_div(odd as i32) as u32,
        a % odd,
        x.min(y) as u32,
        a.max(b),
        if beyond { 0 } else { a << shift },
        if beyond { 0 } else { a >> shift },
        (x >> shift.min(31)) as u32,
        a.count_ones(),
        b.leading_zeros(),
        a.reverse_bits(),
        field,
        ((field << 21) as i32 >> 21) as u32,
        b & !(0x7f << 9) | (a & 0x7f) << 9,
        a & b | !a & c,
        (both << (c & 31) >> 32) as u32,
        if c >= 32 { b } else { (both >> c) as u32 },
        u32::from_le_bytes(select),
        flags,
        a as i8 as i32 as u32,
        !(x.wrapping_neg().wrapping_abs()) as u32,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn integers_are_rusts(inputs in prop::collection::vec(prop_oneof![any::<u32>(), 0..70u32], 3 * LANES)) {
        let out = vec![0; 27 * LANES * 4];
        let found = words(&Launch::warp(TEXT, "integers").run(vec![out, bytes(&inputs)]).unwrap()[0]);
        for (lane, abc) in inputs.chunks_exact(3).enumerate() {
            let wanted = expected(abc[0], abc[1], abc[2]);
            for (i, wanted) in wanted.iter().enumerate() {
                prop_assert_eq!(found[i * LANES + lane], *wanted, "result {} of {:x?}", i, abc);
            }
        }
    }
}

#[test]
fn loops_end_and_labels_belong_to_their_block() {
    let found = words(&Launch::warp(TEXT, "loops").run(vec![vec![0xee; LANES * 4]]).unwrap()[0]);
    for (i, found) in found.into_iter().enumerate() {
        let i = i as u32;
        assert_eq!(found, if i == 7 { 0xeeee_eeee } else { i * (i + 1) / 2 + 3000 }, "thread {i}");
    }
}
