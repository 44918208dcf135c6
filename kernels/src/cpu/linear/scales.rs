//! Block scales as integers: E4M3 numbers over a unit that a matrix has for itself, in a byte of mantissa and shift.
//!
//! An E4M3 number is a multiple of `2^-9`, up to `1.75 * 2^8`. An integer of 15 bits holds it whole if the largest of the matrix is at most
//! 60; else the unit is 2, 4 or 8 times `2^-9`, and a scale that is not a multiple of it, which is one less than 1/2000 of the
//! largest, is rounded to one.

/// Largest shift: `15 << 11` is below `2^15`.
const MOST: u32 = 11;

/// What the integers of a matrix count, as a power of two over `2^-9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit(u32);

/// An E4M3 number without sign in `2^-9`: mantissa and shift.
fn parts(code: u8) -> (u32, u32) {
    let (exponent, fraction) = (u32::from(code >> 3 & 15), u32::from(code & 7));
    if exponent == 0 { (fraction, 0) } else { (8 + fraction, exponent - 1) }
}

impl Unit {
    /// The smallest with which every scale fits.
    pub(super) fn of(codes: &[u8]) -> Self {
        let shift = codes.iter().map(|&c| parts(c).1).max().unwrap_or(0);
        Self(shift.saturating_sub(MOST))
    }

    /// The unit itself.
    pub(super) fn size(self) -> f32 {
        f32::from_bits((127 - 9 + self.0) << 23)
    }

    /// A scale in this unit, to nearest, ties to even: the mantissa in the low four bits, the shift in the high ones.
    pub(super) fn code(self, e4m3: u8) -> u8 {
        let (mantissa, shift) = parts(e4m3);
        if shift >= self.0 {
            return (mantissa | (shift - self.0) << 4) as u8;
        }
        let lost = self.0 - shift;
        let (whole, rest, half) = (mantissa >> lost, mantissa & ((1 << lost) - 1), 1 << (lost - 1));
        let up = rest > half || (rest == half && whole & 1 == 1);
        (whole + u32::from(up)) as u8
    }
}

/// The integer of a code.
pub(crate) fn integer(code: u8) -> i32 {
    i32::from(code & 15) << (code >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fp8::e4m3_to_f32;

    #[test]
    fn every_scale_is_its_integer_times_the_unit() {
        for largest in 0..=0x7e_u8 {
            let unit = Unit::of(&[largest]);
            for code in 0..=largest {
                let (exact, found) = (e4m3_to_f32(code), integer(unit.code(code)) as f32 * unit.size());
                let rounded = (exact / unit.size()).round_ties_even() * unit.size();
                assert_eq!(found, rounded, "{code} beside {largest}");
                assert!(found == exact || exact < e4m3_to_f32(largest) / 2000.0);
                assert!(integer(unit.code(code)) < 1 << 15);
            }
        }
    }

    #[test]
    fn a_small_matrix_loses_nothing() {
        let unit = Unit::of(&[0x66]);
        assert_eq!((unit.size(), e4m3_to_f32(0x66)), (2f32.powi(-9), 56.0));
    }
}
