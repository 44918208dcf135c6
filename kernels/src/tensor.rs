//! Weights as a checkpoint stores them: shapes, number formats and shared bytes, before a device takes them over.

use bytes::Bytes;

/// The stored numbers of a matrix, row-major. Bytes are shared, usually with a memory-mapped file, and need no
/// alignment.
#[derive(Clone, Debug)]
pub enum Values {
    /// Little-endian IEEE single precision.
    F32(Bytes),
    /// Little-endian IEEE half precision.
    F16(Bytes),
    /// Little-endian bfloat16.
    Bf16(Bytes),
    /// NVFP4: value = `(e2m1 * scale) * global`, scales for blocks of 16 columns; see [`crate::nvfp4`].
    Nvfp4 {
        /// Two E2M1 codes a byte, the even column in the low nibble: `[rows, cols / 2]`.
        codes: Bytes,
        /// E4M3 block scales, `[rows, cols / 16]`.
        scales: Bytes,
        /// The tensor's scale (ModelOpt's `weight_scale_2`).
        global: f32,
    },
    /// E4M3 codes with a power-of-two scale per 128 x 128 block: value = `e4m3 * 2^(scale - 127)`; see [`crate::fp8`].
    Fp8Block128 {
        /// `[rows, cols]`.
        codes: Bytes,
        /// E8M0, `[ceil(rows / 128), ceil(cols / 128)]`.
        scales: Bytes,
    },
}

/// A weight matrix: `rows` outputs, `cols` inputs.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// Numbers.
    pub values: Values,
}

/// Why a device can't take a weight or a layout. The caller knows the tensor's name and adds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The bytes don't match the shape.
    #[error("{what} has {found} bytes, a {rows} x {cols} matrix needs {expected}")]
    Length {
        /// Which part of the matrix: "codes", "scales", "values".
        what: &'static str,
        /// Bytes there are.
        found: usize,
        /// Bytes there should be.
        expected: usize,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
    },
    /// A shape that the format or the operation does not allow.
    #[error("{0}")]
    Shape(String),
    /// A scale that is NaN, infinite or negative.
    #[error("{what} {index} is {value}, not a finite non-negative number")]
    Scale {
        /// "block scale" or "tensor scale".
        what: &'static str,
        /// Flat index of the scale.
        index: usize,
        /// Its value as text, since NaN has no equality.
        value: String,
    },
    /// The device has no memory left.
    #[error("device memory exhausted: {0}")]
    Memory(String),
}

impl Matrix {
    /// Checks that the bytes fit the shape and that scales are numbers.
    ///
    /// # Errors
    /// [`BuildError::Shape`], [`BuildError::Length`] or [`BuildError::Scale`].
    pub fn check(&self) -> Result<(), BuildError> {
        let (r, c) = (self.rows, self.cols);
        if r == 0 || c == 0 {
            return Err(BuildError::Shape(format!("an empty {r} x {c} matrix")));
        }
        let length = |what, bytes: &Bytes, expected: usize| {
            let found = bytes.len();
            if found == expected { Ok(()) } else { Err(BuildError::Length { what, found, expected, rows: r, cols: c }) }
        };
        match &self.values {
            Values::F32(b) => length("values", b, r * c * 4),
            Values::F16(b) | Values::Bf16(b) => length("values", b, r * c * 2),
            Values::Nvfp4 { codes, scales, global } => {
                if !c.is_multiple_of(16) {
                    return Err(BuildError::Shape(format!("NVFP4 needs a multiple of 16 columns, not {c}")));
                }
                length("codes", codes, r * c / 2)?;
                length("scales", scales, r * c / 16)?;
                scale_is_number("tensor scale", 0, *global)?;
                match scales.iter().position(|&s| s > 0x7e) {
                    Some(i) => scale_is_number("block scale", i, crate::fp8::e4m3_to_f32(scales[i])),
                    None => Ok(()),
                }
            }
            Values::Fp8Block128 { codes, scales } => {
                length("codes", codes, r * c)?;
                length("scales", scales, r.div_ceil(128) * c.div_ceil(128))?;
                match scales.iter().position(|&s| s == 0xff) {
                    Some(i) => scale_is_number("block scale", i, f32::NAN),
                    None => Ok(()),
                }
            }
        }
    }

    /// Bytes of all parts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.values {
            Values::F32(b) | Values::F16(b) | Values::Bf16(b) => b.len(),
            Values::Nvfp4 { codes, scales, .. } | Values::Fp8Block128 { codes, scales } => codes.len() + scales.len(),
        }
    }
}

fn scale_is_number(what: &'static str, index: usize, value: f32) -> Result<(), BuildError> {
    // A byte above 0x7e is negative or NaN; -0.0 is refused with the negatives, no quantizer writes it.
    if value.is_finite() && value.is_sign_positive() {
        Ok(())
    } else {
        Err(BuildError::Scale { what, index, value: value.to_string() })
    }
}
