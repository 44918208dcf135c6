//! Number formats in memory: f32, bfloat16, half precision.

use half::f16;

/// A stored number.
pub(crate) trait Element: Copy + Send + Sync {
    /// Exact.
    fn widen(self) -> f32;
    /// Rounds to nearest, ties to even.
    fn narrow(v: f32) -> Self;
}

impl Element for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(v: f32) -> Self {
        v
    }
}

/// bfloat16 by its bits.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Bf16(pub(crate) u16);

impl Element for Bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
    #[inline(always)]
    fn narrow(v: f32) -> Self {
        let bits = v.to_bits();
        Self(((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16)
    }
}

/// Half precision by its bits; never infinite.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct F16(pub(crate) u16);

impl Element for F16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        // Rebasing the exponent by a multiplication is exact, subnormals included.
        let magnitude = f32::from_bits(u32::from(self.0 & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
        f32::from_bits(magnitude.to_bits() | u32::from(self.0 & 0x8000) << 16)
    }
    #[inline(always)]
    fn narrow(v: f32) -> Self {
        Self(f16::from_f32(v.clamp(-65504.0, 65504.0)).to_bits())
    }
}

/// Numbers of at most 64 bytes' alignment for which any bytes are valid.
pub(crate) trait Plain: Copy {}
impl Plain for u8 {}
impl<const N: usize> Plain for [u8; N] {}
impl<const N: usize> Plain for [f16; N] {}
impl Plain for f32 {}
impl Plain for Bf16 {}
impl Plain for F16 {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_agree_with_the_half_crate() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), half::bf16::from_bits(bits));
            if h.is_finite() {
                assert_eq!(F16(bits).widen().to_bits(), h.to_f32().to_bits());
                assert_eq!(F16::narrow(h.to_f32()).0, bits);
            }
            if b.is_finite() {
                assert_eq!(Bf16(bits).widen().to_bits(), b.to_f32().to_bits());
                assert_eq!(Bf16::narrow(b.to_f32()).0, bits);
                let between = f32::from_bits(b.to_f32().to_bits() | 0x8000);
                assert_eq!(Bf16::narrow(between).0, half::bf16::from_f32(between).to_bits());
            }
        }
        assert_eq!(F16::narrow(1e9).widen(), 65504.0);
    }
}
