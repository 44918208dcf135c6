//! Random inputs from a counter, and number formats as their definitions read, for comparing kernels with.

use sluicegate_kernels::nvfp4;

/// A reproducible sequence.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Begins anew for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// 64 random bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }

    /// Numbers in [-1, 1).
    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.roll() >> 40) as f32 / (1u32 << 23) as f32 - 1.0).collect()
    }

    /// bf16 codes of numbers in [-1, 1).
    pub fn halves(&mut self, n: usize) -> Vec<u16> {
        self.floats(n).into_iter().map(to_bf16).collect()
    }
}

/// bf16, rounded to nearest even.
#[must_use]
pub fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Value of a bf16 code.
#[must_use]
pub fn bf16(code: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(code) << 16))
}

/// Value of an E2M1 code.
#[must_use]
pub fn e2m1(code: u8) -> f64 {
    f64::from(nvfp4::E2M1[usize::from(code & 15)])
}

/// Whether `found` is within `relative` of `expected`, or within `absolute`.
#[must_use]
pub fn close(found: f64, expected: f64, relative: f64, absolute: f64) -> bool {
    (found - expected).abs() <= expected.abs() * relative + absolute
}

/// Compares two lists number by number.
///
/// # Errors
/// The first difference beyond the tolerance, or a NaN.
pub fn compare(what: &str, found: &[f64], expected: &[f64], relative: f64, absolute: f64) -> Result<(), String> {
    if found.len() < expected.len() {
        return Err(format!("{what}: {} numbers instead of {}", found.len(), expected.len()));
    }
    let wrong = |(f, e): (&f64, &f64)| !close(*f, *e, relative, absolute);
    match found.iter().zip(expected).position(wrong) {
        Some(i) => Err(format!("{what}[{i}] is {} instead of {}", found[i], expected[i])),
        None => Ok(()),
    }
}
