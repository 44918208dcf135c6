//! Small float formats: E4M3, E5M2, E2M1, E8M0.

/// Value of an E4M3 code.
pub(crate) fn e4m3(code: u8) -> f64 {
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f64::from(code & 7));
    let size = match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => fraction / 512.0,
        _ => (1.0 + fraction / 8.0) * 2f64.powi(exponent - 7),
    };
    if code & 0x80 == 0 { size } else { -size }
}

/// Value of an E5M2 code: the upper half of a half-precision number.
pub(crate) fn e5m2(code: u8) -> f64 {
    half::f16::from_bits(u16::from(code) << 8).to_f64()
}

/// Value of the low four bits as E2M1.
pub(crate) fn e2m1(code: u8) -> f64 {
    const SIZES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let size = SIZES[usize::from(code & 7)];
    if code & 8 == 0 { size } else { -size }
}

/// The code whose value is nearest, ties to even code; saturates. `codes` are the non-negative finite ones, in order of their values.
fn nearest(x: f64, codes: u8, value: fn(u8) -> f64, sign: u8) -> u8 {
    let size = x.abs();
    let above = (0..codes).find(|&c| value(c) >= size).unwrap_or(codes - 1);
    let below = above.saturating_sub(u8::from(value(above) > size));
    let (up, down) = (value(above) - size, size - value(below));
    let code = if up < down || (up == down && above.is_multiple_of(2)) { above } else { below };
    if x.is_sign_negative() { code | sign } else { code }
}

/// As `cvt.rn.satfinite.e4m3x2.f32` rounds.
pub(crate) fn to_e4m3(x: f64) -> u8 {
    if x.is_nan() { 0x7f } else { nearest(x, 0x7f, e4m3, 0x80) }
}

/// As `cvt.rn.satfinite.e5m2x2.f32` rounds.
pub(crate) fn to_e5m2(x: f64) -> u8 {
    if x.is_nan() { 0x7f } else { nearest(x, 0x7c, e5m2, 0x80) }
}

/// As `cvt.rn.satfinite.e2m1x2.f32` rounds; NaN becomes the largest number.
pub(crate) fn to_e2m1(x: f64) -> u8 {
    if x.is_nan() { 7 } else { nearest(x, 8, e2m1, 8) }
}

/// Value of an E8M0 code.
pub(crate) fn e8m0(code: u8) -> f64 {
    if code == 0xff { f64::NAN } else { 2f64.powi(i32::from(code) - 127) }
}

/// The power of two next to |x|, upward or towards zero.
pub(crate) fn to_e8m0(x: f32, up: bool) -> u8 {
    if x.is_nan() {
        return 0xff;
    }
    let bits = x.abs().to_bits();
    let (exponent, fraction) = (bits >> 23, bits & 0x7f_ffff);
    // Code 0 is 2^-127, in the middle of f32's subnormals.
    let above = if exponent == 0 { fraction > 0x40_0000 } else { fraction > 0 };
    (exponent + u32::from(up && above)).min(0xfe) as u8
}
