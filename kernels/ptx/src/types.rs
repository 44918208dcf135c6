//! PTX's fundamental and packed types.

/// Type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Pred,
    /// Untyped, of so many bits.
    Bits(u32),
    Unsigned(u32),
    Signed(u32),
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    E4m3x2,
    E5m2x2,
    E2m1x2,
    Ue8m0x2,
}

impl Type {
    /// By the suffix of an instruction, without its dot.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "e4m3x2" => Self::E4m3x2,
            "e5m2x2" => Self::E5m2x2,
            "e2m1x2" => Self::E2m1x2,
            "ue8m0x2" => Self::Ue8m0x2,
            _ => {
                let (kind, bits) = name.split_at_checked(1)?;
                let bits = bits.parse().ok().filter(|b| [8, 16, 32, 64].contains(b))?;
                match kind {
                    "b" => Self::Bits(bits),
                    "u" => Self::Unsigned(bits),
                    "s" => Self::Signed(bits),
                    _ => return None,
                }
            }
        })
    }

    /// Bits in a register and in memory.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::Bits(n) | Self::Unsigned(n) | Self::Signed(n) => n,
            Self::E2m1x2 => 8,
            Self::F16 | Self::Bf16 | Self::E4m3x2 | Self::E5m2x2 | Self::Ue8m0x2 => 16,
            Self::F16x2 | Self::Bf16x2 | Self::F32 => 32,
            Self::F64 => 64,
        }
    }

    pub(crate) fn bytes(self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Self::Signed(_))
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::Pred | Self::Bits(_) | Self::Unsigned(_) | Self::Signed(_))
    }

    /// A float that arithmetic works on, alone or in pairs.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F16x2 | Self::Bf16 | Self::Bf16x2 | Self::F32 | Self::F64)
    }

    /// The low bits that belong to the type.
    pub(crate) fn truncate(self, value: u64) -> u64 {
        truncate(value, self.bits())
    }

    /// The number that the bits mean.
    pub(crate) fn integer(self, value: u64) -> i128 {
        let value = self.truncate(value);
        if self.is_signed() { i128::from(sign_extend(value, self.bits())) } else { i128::from(value) }
    }
}

/// The lowest `bits` bits.
pub(crate) fn truncate(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// The lowest `bits` bits as a number of two's complement.
pub(crate) fn sign_extend(value: u64, bits: u32) -> i64 {
    let unused = 64 - bits;
    ((value << unused) as i64) >> unused
}
