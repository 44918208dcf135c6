//! Weights in the layout of the kernels (`cuda/weights.cuh`): 32 rows of a matrix by 64 columns, padded with zeros.

use crate::tensor::{BuildError, Matrix, Values};

/// Rows of a tile.
pub const TILE_ROWS: usize = 32;
/// Columns of a step.
pub const STEP: usize = 64;
/// Rows that stay together when gate and up are interleaved.
const GROUP: usize = 8;

/// Number formats that have a tensor-core kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// E2M1 codes, E4M3 scales.
    Nvfp4,
    /// Plain bf16.
    Bf16,
    /// E4M3 codes, E8M0 scales for blocks of 128 x 128.
    Fp8,
}

/// A matrix, or several stacked by rows, ready for upload.
#[derive(Clone, Debug)]
pub struct Packed {
    /// Number format.
    pub format: Format,
    /// Codes or numbers.
    pub codes: Vec<u8>,
    /// Block scales; empty for plain numbers.
    pub scales: Vec<u8>,
    /// A factor for each row, in tile order.
    pub alpha: Vec<f32>,
    /// Results of a row of input: rows of the matrix, or half of them where gate and up are interleaved.
    pub columns: usize,
    /// Steps of 64 input columns.
    pub steps: usize,
}

/// The format of a matrix that tensor cores can read; f32 and f16 would lose bits.
#[must_use]
pub fn format(matrix: &Matrix) -> Option<Format> {
    match matrix.values {
        Values::Nvfp4 { .. } => Some(Format::Nvfp4),
        Values::Bf16(_) => Some(Format::Bf16),
        Values::Fp8Block128 { .. } => Some(Format::Fp8),
        Values::F32(_) | Values::F16(_) => None,
    }
}

/// Whether matrices may share a launch: one format, and no group of eight rows across two of them.
#[must_use]
pub fn may_join(first: &Matrix, next: &Matrix) -> bool {
    format(first).is_some() && format(first) == format(next) && first.rows.is_multiple_of(GROUP)
}

/// Stacks matrices of one format.
///
/// # Errors
/// [`BuildError`] if one is malformed, or they don't fit together.
pub fn stack(parts: &[&Matrix]) -> Result<Packed, BuildError> {
    let rows: Vec<Row> = parts.iter().flat_map(|&m| (0..m.rows).map(move |r| Some((m, r)))).collect();
    let columns = rows.len();
    pack(parts, rows, columns)
}

/// Interleaves a gate and an up matrix in groups of eight rows.
///
/// # Errors
/// [`BuildError`] if one is malformed, or they differ in shape or format.
pub fn gated(gate: &Matrix, up: &Matrix) -> Result<Packed, BuildError> {
    let rows = interleaved(gate, up)?;
    pack(&[gate, up], rows, gate.rows)
}

/// Columns of a step of FP4 with FP4.
pub const FP4_STEP: usize = 128;

/// Stacks NVFP4 matrices for FP4 activations: codes and scales row-major, 64 rows and 128 columns at a time.
///
/// # Errors
/// [`BuildError`] if one is malformed, no NVFP4, or they differ in width.
pub fn stack_fp4(parts: &[&Matrix]) -> Result<Packed, BuildError> {
    let rows: Vec<Row> = parts.iter().flat_map(|&m| (0..m.rows).map(move |r| Some((m, r)))).collect();
    let columns = rows.len();
    pack_fp4(parts, rows, columns)
}

/// Interleaves NVFP4 gate and up matrices for FP4 activations.
///
/// # Errors
/// [`BuildError`] if one is malformed, no NVFP4, or they differ in shape.
pub fn gated_fp4(gate: &Matrix, up: &Matrix) -> Result<Packed, BuildError> {
    pack_fp4(&[gate, up], interleaved(gate, up)?, gate.rows)
}

fn pack_fp4(parts: &[&Matrix], mut rows: Vec<Row<'_>>, columns: usize) -> Result<Packed, BuildError> {
    if check_alike(parts)? != Format::Nvfp4 {
        return Err(BuildError::Shape("FP4 activations need NVFP4 weights".into()));
    }
    rows.resize(rows.len().next_multiple_of(2 * TILE_ROWS), None);
    let steps = parts[0].cols.div_ceil(FP4_STEP);
    let (code_bytes, scale_bytes) = (steps * FP4_STEP / 2, steps * FP4_STEP / 16);
    let (mut codes, mut scales) = (vec![0; rows.len() * code_bytes], vec![0; rows.len() * scale_bytes]);
    for (n, row) in rows.iter().enumerate() {
        let Some((m, r)) = *row else { continue };
        let Values::Nvfp4 { codes: from, scales: from_scales, .. } = &m.values else { continue };
        let (half, blocks) = (m.cols / 2, m.cols / 16);
        codes[n * code_bytes..][..half].copy_from_slice(&from[r * half..][..half]);
        scales[n * scale_bytes..][..blocks].copy_from_slice(&from_scales[r * blocks..][..blocks]);
    }
    let global = |m: &Matrix| if let Values::Nvfp4 { global, .. } = m.values { global } else { 0.0 };
    let alpha = rows.iter().map(|row| row.map_or(0.0, |(m, _)| global(m))).collect();
    Ok(Packed { format: Format::Nvfp4, codes, scales, alpha, columns, steps })
}

type Row<'a> = Option<(&'a Matrix, usize)>;

/// Checks each matrix, and that all have one width and format, which it returns.
fn check_alike(parts: &[&Matrix]) -> Result<Format, BuildError> {
    let Some(first) = parts.first() else { return Err(BuildError::Shape("a linear without matrices".into())) };
    for m in parts {
        m.check()?;
        if m.cols != first.cols || format(m) != format(first) {
            return Err(BuildError::Shape("matrices of different widths or formats in one launch".into()));
        }
    }
    let text = "tensor cores read NVFP4, FP8 and bf16, not f32 or f16";
    format(first).ok_or_else(|| BuildError::Shape(text.into()))
}

/// Rows of a gate and an up matrix in alternating groups of eight.
fn interleaved<'a>(gate: &'a Matrix, up: &'a Matrix) -> Result<Vec<Row<'a>>, BuildError> {
    if (gate.rows, gate.cols) != (up.rows, up.cols) {
        let text = format!("gate is {} x {}, up {} x {}", gate.rows, gate.cols, up.rows, up.cols);
        return Err(BuildError::Shape(text));
    }
    let group = |m, first: usize| (first..first + GROUP).map(move |r| (r < gate.rows).then_some((m, r)));
    Ok((0..gate.rows).step_by(GROUP).flat_map(|first| group(gate, first).chain(group(up, first))).collect())
}

fn pack(parts: &[&Matrix], mut rows: Vec<Row<'_>>, columns: usize) -> Result<Packed, BuildError> {
    let format = check_alike(parts)?;
    rows.resize(rows.len().next_multiple_of(TILE_ROWS), None);
    let steps = parts[0].cols.div_ceil(STEP);
    let (codes, scales) = match format {
        Format::Nvfp4 => nvfp4(&rows, steps),
        Format::Bf16 => (plain(&rows, steps, 2), Vec::new()),
        Format::Fp8 => (plain(&rows, steps, 1), fp8_scales(&rows, steps)),
    };
    let alpha = rows.iter().map(|row| row.map_or(0.0, |(m, _)| factor(m))).collect();
    Ok(Packed { format, codes, scales, alpha, columns, steps })
}

/// The kernel unpacks NVFP4 to 2^-8 times the number, which keeps its intermediate in bf16's range.
fn factor(matrix: &Matrix) -> f32 {
    if let Values::Nvfp4 { global, .. } = matrix.values { global * 256.0 } else { 1.0 }
}

fn nvfp4(rows: &[Row<'_>], steps: usize) -> (Vec<u8>, Vec<u8>) {
    let tiles = rows.len() / TILE_ROWS;
    let (mut codes, mut scales) = (vec![0; tiles * steps * 1024], vec![0; tiles * steps * 128]);
    for (n, row) in rows.iter().enumerate() {
        let Some((m, r)) = *row else { continue };
        let Values::Nvfp4 { codes: from, scales: from_scales, .. } = &m.values else { continue };
        let (tile, group, g) = (n / TILE_ROWS, n % TILE_ROWS / GROUP, n % GROUP);
        for block in 0..m.cols / 16 {
            let (step, q) = (block / 4, block % 4);
            let (at, lane) = (tile * steps + step, 4 * g + q);
            scales[at * 128 + lane * 4 + group] = from_scales[r * (m.cols / 16) + block];
            let sixteen = &from[(r * m.cols + block * 16) / 2..][..8];
            let to = &mut codes[at * 1024 + group / 2 * 512 + lane * 16 + group % 2 * 8..][..8];
            to.copy_from_slice(&ordered(sixteen));
        }
    }
    (codes, scales)
}

/// A block's codes as the kernel's `unpack` takes them out: of each word, register i has nibbles 3 - i and 7 - i.
fn ordered(sixteen: &[u8]) -> [u8; 8] {
    let mut out = [0u8; 8];
    for k in 0..16 {
        let code = sixteen[k / 2] >> (k % 2 * 4) & 15;
        let (word, register) = (k / 8, k % 8 / 2);
        let nibble = if k % 2 == 0 { 3 - register } else { 7 - register };
        out[word * 4 + nibble / 2] |= code << (nibble % 2 * 4);
    }
    out
}

/// Row-major numbers of `size` bytes in padded rows.
fn plain(rows: &[Row<'_>], steps: usize, size: usize) -> Vec<u8> {
    let stride = steps * STEP * size;
    let mut out = vec![0; rows.len() * stride];
    for (row, to) in rows.iter().zip(out.chunks_exact_mut(stride)) {
        let Some((m, r)) = *row else { continue };
        if let Values::Bf16(from) | Values::Fp8Block128 { codes: from, .. } = &m.values {
            to[..m.cols * size].copy_from_slice(&from[r * m.cols * size..][..m.cols * size]);
        }
    }
    out
}

/// For each tile and 128 columns, a byte for each group of eight rows.
fn fp8_scales(rows: &[Row<'_>], steps: usize) -> Vec<u8> {
    let across = steps.div_ceil(2);
    let mut out = vec![127; rows.len() / GROUP * across];
    for (group, rows) in rows.chunks_exact(GROUP).enumerate() {
        let Some((m, r)) = rows[0] else { continue };
        let Values::Fp8Block128 { scales, .. } = &m.values else { continue };
        let (tile, byte) = (group / 4, group % 4);
        let stored = m.cols.div_ceil(128);
        for block in 0..stored {
            out[(tile * across + block) * 4 + byte] = scales[r / 128 * stored + block];
        }
    }
    out
}
