//! FP8: E4M3 (finite variant, NaN at 0x7f) and E8M0 (powers of two), and matrices of E4M3 with a scale per 128 x 128 block.

use crate::tensor::BuildError;

/// Largest E4M3 number.
pub const E4M3_MAX: f32 = 448.0;
/// Side of a scaled block.
pub const BLOCK: usize = 128;

/// The value of an E4M3 code; exact. 0x7f and 0xff are NaN, there is no infinity.
#[must_use]
pub const fn e4m3_to_f32(code: u8) -> f32 {
    let magnitude = (code & 0x7f) as u32;
    let sign = ((code >> 7) as u32) << 31;
    match magnitude {
        0x7f => f32::NAN,
        // Subnormals step by 2^-9.
        0..8 => f32::from_bits((magnitude as f32 / 512.0).to_bits() | sign),
        // Exponent bias 7 becomes 127; three fraction bits move to the top of 23.
        _ => f32::from_bits(((magnitude << 20) + ((127 - 7) << 23)) | sign),
    }
}

/// Rounds to the nearest E4M3 number, ties to even; saturates at 448. NaN stays NaN.
#[must_use]
pub fn f32_to_e4m3(x: f32) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = (x.to_bits() >> 24) as u8 & 0x80;
    let a = x.abs().min(E4M3_MAX);
    let magnitude = if a < f32::from_bits((127 - 6) << 23) {
        // Below 2^-6 codes step evenly by 2^-9; rounding up to 8 lands on the first normal code.
        (a * 512.0).round_ties_even() as u32
    } else {
        let bits = a.to_bits();
        let tie_to_even = (bits >> 20) & 1;
        ((bits + 0x7_ffff + tie_to_even) >> 20) - ((127 - 7) << 3)
    };
    sign | magnitude as u8
}

/// The value of an E8M0 code, `2^(code - 127)`; 0xff is NaN.
#[must_use]
pub const fn e8m0_to_f32(code: u8) -> f32 {
    match code {
        0xff => f32::NAN,
        // 2^-127 is subnormal in single precision.
        0 => f32::from_bits(1 << 22),
        _ => f32::from_bits((code as u32) << 23),
    }
}

/// The smallest power of two that brings `amax` to at most 448, as an E8M0 code; 2^0 for zero.
#[must_use]
pub fn block_scale(amax: f32) -> u8 {
    if amax == 0.0 { 127 } else { power_of_two_scale(amax, E4M3_MAX) }
}

/// The smallest power of two that brings `amax`, which is positive, to at most `most`, as an E8M0 code.
#[must_use]
pub fn power_of_two_scale(amax: f32, most: f32) -> u8 {
    // amax / most = m * 2^e with m in [1, 2): the next power of two is e, or e + 1 unless m is exactly 1.
    let bits = (f64::from(amax) / f64::from(most)).to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let up = i32::from(bits & ((1 << 52) - 1) != 0);
    (exponent + up + 127).clamp(0, 254) as u8
}

/// Codes and scales of a row-major matrix with a power-of-two scale for each 128 x 128 block.
///
/// # Errors
/// [`BuildError::Shape`] if `values` is not a whole number of rows.
pub fn quantize_block128(values: &[f32], cols: usize) -> Result<(Vec<u8>, Vec<u8>), BuildError> {
    if cols == 0 || !values.len().is_multiple_of(cols) {
        return Err(BuildError::Shape(format!("{} values are no rows of {cols}", values.len())));
    }
    let across = cols.div_ceil(BLOCK);
    let mut amax = vec![0f32; (values.len() / cols).div_ceil(BLOCK) * across];
    for (r, row) in values.chunks_exact(cols).enumerate() {
        for (b, block) in row.chunks(BLOCK).enumerate() {
            let m = &mut amax[r / BLOCK * across + b];
            *m = block.iter().fold(*m, |m, x| m.max(x.abs()));
        }
    }
    let scales: Vec<u8> = amax.into_iter().map(block_scale).collect();
    let code = |(i, x): (usize, &f32)| {
        let scale = scales[i / cols / BLOCK * across + i % cols / BLOCK];
        f32_to_e4m3(x / e8m0_to_f32(scale))
    };
    Ok((values.iter().enumerate().map(code).collect(), scales))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_a_round_trip() {
        for code in (0..=255u8).filter(|c| c & 0x7f != 0x7f) {
            assert_eq!(f32_to_e4m3(e4m3_to_f32(code)), code, "{code:#x}");
        }
    }

    #[test]
    fn rounds_to_nearest_even() {
        for code in 0..0x7e_u8 {
            let (lo, hi) = (e4m3_to_f32(code), e4m3_to_f32(code + 1));
            let middle = (lo + hi) / 2.0;
            assert_eq!(f32_to_e4m3(middle), code + (code & 1), "tie above {code:#x}");
            assert_eq!(f32_to_e4m3(middle.next_up()), code + 1);
            assert_eq!(f32_to_e4m3(middle.next_down()), code);
        }
        assert_eq!(f32_to_e4m3(f32::INFINITY), 0x7e);
        assert_eq!(f32_to_e4m3(-1e9), 0xfe);
        assert_eq!(f32_to_e4m3(f32::NAN), 0x7f);
    }

    #[test]
    fn scales_are_powers_of_two() {
        assert_eq!((e8m0_to_f32(127), e8m0_to_f32(0), e8m0_to_f32(254)), (1.0, 2f32.powi(-127), 2f32.powi(127)));
        assert_eq!(
            (block_scale(448.0), block_scale(448.1), block_scale(224.0), block_scale(0.0)),
            (127, 128, 126, 127)
        );
    }
}
