//! Number formats a safetensors file can declare.

use std::fmt;

/// Element type of a stored tensor, by its safetensors name.
///
/// Types that no supported model uses are kept as [`Dtype::Other`], so that a file holding one can still be opened and
/// the complaint can name the tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// Two E2M1 codes a byte, low nibble first.
    F4,
    /// Raw bytes; packed FP4 codes in ModelOpt's and compressed-tensors' layouts.
    U8,
    /// Signed bytes; packed FP4 codes in DeepSeek's layout.
    I8,
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinity.
    F8E4m3,
    /// Power of two with bias 127; 0xFF is NaN.
    F8E8m0,
    /// IEEE half.
    F16,
    /// Upper half of an IEEE single.
    Bf16,
    /// IEEE single.
    F32,
    /// IEEE double.
    F64,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// A dtype with this name, which nothing here computes with.
    Other(Box<str>),
}

impl Dtype {
    /// From the name in a safetensors header.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "F4" => Self::F4,
            "U8" => Self::U8,
            "I8" => Self::I8,
            "F8_E4M3" => Self::F8E4m3,
            "F8_E8M0" => Self::F8E8m0,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "F32" => Self::F32,
            "F64" => Self::F64,
            "I32" => Self::I32,
            "I64" => Self::I64,
            other => Self::Other(other.into()),
        }
    }

    /// The name in a safetensors header.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::F4 => "F4",
            Self::U8 => "U8",
            Self::I8 => "I8",
            Self::F8E4m3 => "F8_E4M3",
            Self::F8E8m0 => "F8_E8M0",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::I32 => "I32",
            Self::I64 => "I64",
            Self::Other(name) => name,
        }
    }

    /// Bits an element takes; `None` where only the file's writer knows.
    #[must_use]
    pub fn bits(&self) -> Option<usize> {
        match self {
            Self::F4 => Some(4),
            Self::U8 | Self::I8 | Self::F8E4m3 | Self::F8E8m0 => Some(8),
            Self::F16 | Self::Bf16 => Some(16),
            Self::F32 | Self::I32 => Some(32),
            Self::F64 | Self::I64 => Some(64),
            Self::Other(name) => match &**name {
                "BOOL" | "F8_E5M2" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => Some(8),
                "U16" | "I16" => Some(16),
                "U32" => Some(32),
                "U64" | "C64" => Some(64),
                _ => None,
            },
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
