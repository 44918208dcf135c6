//! NVFP4: E2M1 codes with an E4M3 scale for each 16 columns and one f32 scale for the tensor, by ModelOpt's rules.

use crate::fp8::{E4M3_MAX, e4m3_to_f32, f32_to_e4m3};
use crate::tensor::BuildError;

/// Columns that share a block scale.
pub const BLOCK: usize = 16;
/// Largest E2M1 number.
pub const E2M1_MAX: f32 = 6.0;
/// The sixteen E2M1 numbers by code; bit 3 is the sign. Code 8 is plain zero.
pub const E2M1: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Rounds to the nearest E2M1 number, ties to even code; saturates at 6. The sign is `x < 0`, so -0.0 becomes code 0
/// and a tiny negative number code 8.
#[must_use]
pub fn f32_to_e2m1(x: f32) -> u8 {
    let a = x.abs();
    // Boundaries between neighbours; those after an even code belong to it, so that a tie goes to the even code.
    let code = (a > 0.25) as u8
        + (a >= 0.75) as u8
        + (a > 1.25) as u8
        + (a >= 1.75) as u8
        + (a > 2.5) as u8
        + (a >= 3.5) as u8
        + (a > 5.0) as u8;
    code | ((x < 0.0) as u8) << 3
}

/// The tensor scale that lets the largest magnitude be 6 times the largest block scale; 1 for a tensor of zeros.
#[must_use]
pub fn global_scale(amax: f32) -> f32 {
    if amax == 0.0 { 1.0 } else { amax / (E2M1_MAX * E4M3_MAX) }
}

/// The block scale's code: 1.0 for a block of zeros, never below the smallest positive E4M3 number.
#[must_use]
pub fn block_scale(amax: f32, global: f32) -> u8 {
    let scale = if amax == 0.0 { 1.0 } else { (amax / (E2M1_MAX * global)).max(1.0 / 512.0) };
    f32_to_e4m3(scale)
}

/// Quantizes one block into 8 bytes (even column in the low nibble) and its scale's code.
#[must_use]
pub fn quantize_block(values: &[f32; BLOCK], global: f32) -> ([u8; BLOCK / 2], u8) {
    let amax = values.iter().fold(0f32, |m, x| m.max(x.abs()));
    let scale = block_scale(amax, global);
    let step = e4m3_to_f32(scale) * global;
    let code = |x: f32| f32_to_e2m1(x / step);
    (std::array::from_fn(|i| code(values[2 * i]) | code(values[2 * i + 1]) << 4), scale)
}

/// Decodes one block: `(e2m1 * scale) * global`, the first product exact.
#[must_use]
pub fn dequantize_block(codes: &[u8; BLOCK / 2], scale: u8, global: f32) -> [f32; BLOCK] {
    let scale = e4m3_to_f32(scale);
    std::array::from_fn(|i| {
        let code = if i % 2 == 0 { codes[i / 2] & 15 } else { codes[i / 2] >> 4 };
        (E2M1[code as usize] * scale) * global
    })
}

/// Packed codes and block scales of rows whose length is a multiple of 16.
///
/// # Errors
/// [`BuildError::Shape`] if `values` is not a whole number of blocks.
pub fn quantize(values: &[f32], global: f32) -> Result<(Vec<u8>, Vec<u8>), BuildError> {
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    if !rest.is_empty() {
        return Err(BuildError::Shape(format!("{} values are no blocks of {BLOCK}", values.len())));
    }
    let mut codes = Vec::with_capacity(values.len() / 2);
    let mut scales = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (c, s) = quantize_block(block, global);
        codes.extend_from_slice(&c);
        scales.push(s);
    }
    Ok((codes, scales))
}

/// Decodes a run of blocks.
///
/// # Panics
/// If `codes` is not 8 bytes and `out` not 16 numbers for each scale.
pub fn dequantize(codes: &[u8], scales: &[u8], global: f32, out: &mut [f32]) {
    assert!(codes.len() == scales.len() * 8 && out.len() == scales.len() * BLOCK, "lengths differ");
    let blocks = codes.as_chunks::<8>().0.iter().zip(scales);
    for ((codes, &scale), out) in blocks.zip(out.as_chunks_mut::<BLOCK>().0) {
        *out = dequantize_block(codes, scale, global);
    }
}

/// What is left of a row of activations when it is multiplied as FP4: rounded to bf16, then quantized with a tensor scale of its own,
/// so that no row depends on another (`cuda/quantize.cu` does the same). A checkpoint's calibrated scale is not used.
///
/// # Panics
/// If the row is no whole number of blocks.
pub fn round_row(row: &mut [f32]) {
    assert!(row.len().is_multiple_of(BLOCK), "{} values are no blocks of {BLOCK}", row.len());
    row.iter_mut().for_each(|x| *x = half::bf16::from_f32(*x).to_f32());
    let global = global_scale(row.iter().fold(0f32, |m, x| m.max(x.abs())));
    for block in row.as_chunks_mut::<BLOCK>().0 {
        let (codes, scale) = quantize_block(block, global);
        *block = dequantize_block(&codes, scale, global);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_and_ties_go_to_even() {
        for code in 0..16u8 {
            // -0.0 loses its sign, as in ModelOpt.
            assert_eq!(f32_to_e2m1(E2M1[code as usize]), if code == 8 { 0 } else { code });
        }
        for code in 0..7u8 {
            let middle = (E2M1[code as usize] + E2M1[code as usize + 1]) / 2.0;
            assert_eq!(f32_to_e2m1(middle), code + (code & 1), "{middle}");
            assert_eq!(f32_to_e2m1(-middle), (code + (code & 1)) | 8);
            assert_eq!((f32_to_e2m1(middle.next_down()), f32_to_e2m1(middle.next_up())), (code, code + 1));
        }
        assert_eq!((f32_to_e2m1(1e30), f32_to_e2m1(-1e-30), f32_to_e2m1(-0.0)), (7, 8, 0));
    }
}
