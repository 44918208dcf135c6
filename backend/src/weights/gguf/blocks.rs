//! Number formats of GGUF tensors: which are read, and how their blocks decode. Formulas as in ggml's `block_q*` structs.

use half::{bf16, f16};

/// A supported tensor type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorType {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// 32 elements: f16 scale, 4-bit codes minus 8.
    Q4_0,
    /// 32 elements: f16 scale and minimum, 4-bit codes.
    Q4_1,
    /// 32 elements: f16 scale, signed bytes.
    Q8_0,
}

/// ggml's type numbers with their names, for naming what is refused.
const NAMES: [(u32, &str); 34] = [
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (8, "Q8_0"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (30, "BF16"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
];

/// Elements of a quantized block.
const BLOCK: usize = 32;

impl TensorType {
    /// From ggml's type number; the error names the type.
    ///
    /// # Errors
    /// When the type is not one that can be read.
    pub fn from_id(id: u32) -> Result<Self, String> {
        Ok(match id {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            30 => Self::Bf16,
            _ => {
                let name = NAMES.iter().find(|(n, _)| *n == id).map_or("an unknown type", |(_, name)| name);
                return Err(format!(
                    "type {name} (ggml {id}) is not supported: Q4_0, Q4_1, Q8_0, F16, BF16 and F32 are"
                ));
            }
        })
    }

    /// Elements and bytes of a block.
    const fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (BLOCK, 2 + 16),
            Self::Q4_1 => (BLOCK, 4 + 16),
            Self::Q8_0 => (BLOCK, 2 + 32),
        }
    }

    /// Does a row of this many elements hold whole blocks?
    #[must_use]
    pub fn divides(self, row: usize) -> bool {
        row.is_multiple_of(self.block().0)
    }

    /// Bytes of this many elements, a whole number of blocks; saturates.
    #[must_use]
    pub fn bytes(self, elements: usize) -> usize {
        let (n, size) = self.block();
        (elements / n).saturating_mul(size)
    }

    /// Decodes whole blocks.
    pub(super) fn decode(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::F32 => scalars(bytes, out, f32::from_le_bytes),
            Self::F16 => scalars(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
            Self::Bf16 => scalars(bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
            Self::Q4_0 => blocks(bytes, out, |b: &[u8; 18], o| {
                let d = half(b, 0);
                nibbles(&b[2..], o, |q| (f32::from(q) - 8.0) * d);
            }),
            Self::Q4_1 => blocks(bytes, out, |b: &[u8; 20], o| {
                let (d, m) = (half(b, 0), half(b, 2));
                nibbles(&b[4..], o, |q| f32::from(q) * d + m);
            }),
            Self::Q8_0 => blocks(bytes, out, |b: &[u8; 34], o| {
                let d = half(b, 0);
                for (v, &q) in o.iter_mut().zip(&b[2..]) {
                    *v = f32::from(q.cast_signed()) * d;
                }
            }),
        }
    }
}

fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Low nibbles are the first half of the block, high nibbles the second.
fn nibbles(codes: &[u8], out: &mut [f32; BLOCK], value: impl Fn(u8) -> f32) {
    let (low, high) = out.split_at_mut(BLOCK / 2);
    for ((&c, l), h) in codes.iter().zip(low).zip(high) {
        (*l, *h) = (value(c & 15), value(c >> 4));
    }
}

fn scalars<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    for (o, b) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *o = value(*b);
    }
}

fn blocks<const N: usize>(bytes: &[u8], out: &mut [f32], decode: impl Fn(&[u8; N], &mut [f32; BLOCK])) {
    for (o, b) in out.as_chunks_mut::<BLOCK>().0.iter_mut().zip(bytes.as_chunks::<N>().0) {
        decode(b, o);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(kind: TensorType, scales: &[f32], codes: &[u8]) -> Vec<f32> {
        let mut bytes: Vec<u8> = scales.iter().flat_map(|s| f16::from_f32(*s).to_le_bytes()).collect();
        bytes.extend_from_slice(codes);
        let mut out = vec![0.0; BLOCK];
        kind.decode(&bytes, &mut out);
        out
    }

    #[test]
    fn blocks_decode_as_ggml_writes_them() {
        let codes: Vec<u8> = (0..16).map(|i| i | (15 - i) << 4).collect();
        let q4_0 = decoded(TensorType::Q4_0, &[0.5], &codes);
        let q4_1 = decoded(TensorType::Q4_1, &[0.25, -1.0], &codes);
        let bytes: Vec<u8> = (0..32u8).map(|i| i.wrapping_sub(16)).collect();
        let q8_0 = decoded(TensorType::Q8_0, &[2.0], &bytes);
        for i in 0..32u8 {
            let q = f32::from(if i < 16 { i } else { 31 - i });
            assert_eq!(q4_0[i as usize], (q - 8.0) * 0.5);
            assert_eq!(q4_1[i as usize], q * 0.25 - 1.0);
            assert_eq!(q8_0[i as usize], (f32::from(i) - 16.0) * 2.0);
        }
    }

    #[test]
    fn other_types_are_refused_by_name() {
        assert!(TensorType::from_id(12).unwrap_err().contains("type Q4_K (ggml 12) is not supported"));
        assert!(TensorType::from_id(999).unwrap_err().contains("an unknown type (ggml 999)"));
    }
}
