//! Weights on the device.

use std::sync::Arc;

use cudarc::driver::CudaContext;

use super::memory::Buffer;
use crate::cuda::call::Address;
use crate::cuda::calls::WeightsAt;
use crate::cuda::pack::{self, Format, Packed};
use crate::ops::DeviceError;
use crate::tensor::{BuildError, Matrix, Values};

/// Some rows of a linear, of one format.
#[derive(Debug)]
pub(super) enum Part {
    /// For tensor cores.
    Packed(PackedPart),
    /// f32, row-major: formats that tensor cores would lose bits of.
    Plain { values: Buffer, rows: usize },
    /// For tensor cores, and now part of a layer of experts.
    Moved { rows: usize },
}

/// Packed weights and their memory.
#[derive(Debug)]
pub(super) struct PackedPart {
    pub(super) at: WeightsAt,
    pub(super) memory: [Buffer; 3],
    /// In the layout that meets FP4 activations.
    pub(super) fp4: bool,
}

impl Part {
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Packed(p) => p.at.columns as usize,
            Self::Plain { rows, .. } | Self::Moved { rows } => *rows,
        }
    }
}

/// A linear: parts stacked by rows, or a gate and an up.
#[derive(Debug)]
pub(super) struct LinearMemory {
    pub(super) cols: usize,
    pub(super) parts: Vec<Part>,
}

impl LinearMemory {
    pub(super) fn rows(&self) -> usize {
        self.parts.iter().map(Part::rows).sum()
    }

    /// Its weights, if they are one piece for tensor cores and bf16 activations.
    pub(super) fn packed(&self) -> Option<&PackedPart> {
        match &self.parts[..] {
            [Part::Packed(packed)] if !packed.fp4 => Some(packed),
            _ => None,
        }
    }

    pub(super) fn reads_halves(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::Packed(_) | Part::Moved { .. }))
    }

    pub(super) fn reads_fp4(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::Packed(packed) if packed.fp4))
    }

    pub(super) fn reads_floats(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::Plain { .. }))
    }
}

/// What uploading weights can end in.
fn memory(error: DeviceError) -> BuildError {
    BuildError::Memory(error.0)
}

fn upload(context: &Arc<CudaContext>, packed: &Packed, fp4: bool) -> Result<Part, BuildError> {
    let alpha: Vec<u8> = packed.alpha.iter().flat_map(|a| a.to_le_bytes()).collect();
    let buffer = |bytes: &[u8]| Buffer::of(context, bytes).map_err(memory);
    let memory = [buffer(&packed.codes)?, buffer(&packed.scales)?, buffer(&alpha)?];
    let at = WeightsAt {
        format: packed.format,
        codes: memory[0].at(),
        scales: memory[1].at(),
        alpha: memory[2].at(),
        columns: packed.columns as u32,
        steps: packed.steps as u32,
    };
    Ok(Part::Packed(PackedPart { at, memory, fp4 }))
}

fn upload_plain(context: &Arc<CudaContext>, matrix: &Matrix) -> Result<Part, BuildError> {
    let bytes: Vec<u8> = match &matrix.values {
        Values::F32(bytes) => bytes.to_vec(),
        values => floats(values).iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    Ok(Part::Plain { values: Buffer::of(context, &bytes).map_err(memory)?, rows: matrix.rows })
}

/// Two-byte numbers, widened.
fn floats(values: &Values) -> Vec<f32> {
    let widen = |bytes: &[u8], one: fn(u16) -> f32| -> Vec<f32> {
        bytes.as_chunks::<2>().0.iter().map(|b| one(u16::from_le_bytes(*b))).collect()
    };
    match values {
        Values::F16(bytes) => widen(bytes, |b| half::f16::from_bits(b).to_f32()),
        Values::Bf16(bytes) => widen(bytes, |b| half::bf16::from_bits(b).to_f32()),
        _ => Vec::new(),
    }
}

/// Matrices stacked by rows; neighbours of one format share a launch. With `fp4`, those of NVFP4 meet FP4 activations.
pub(super) fn stack(context: &Arc<CudaContext>, matrices: &[&Matrix], fp4: bool) -> Result<LinearMemory, BuildError> {
    let cols = matrices.first().map_or(0, |m| m.cols);
    for m in matrices {
        m.check()?;
        if m.cols != cols {
            return Err(BuildError::Shape(format!("matrices of {cols} and {} columns in one linear", m.cols)));
        }
    }
    let mut parts = Vec::new();
    for run in matrices.chunk_by(|a, b| pack::may_join(a, b)) {
        match pack::format(run[0]) {
            Some(Format::Nvfp4) if fp4 => parts.push(upload(context, &pack::stack_fp4(run)?, true)?),
            Some(_) => parts.push(upload(context, &pack::stack(run)?, false)?),
            None => {
                for matrix in run {
                    parts.push(upload_plain(context, matrix)?);
                }
            }
        }
    }
    Ok(LinearMemory { cols, parts })
}

/// A gate and an up: interleaved where tensor cores read them, else one after the other.
pub(super) fn gated(
    context: &Arc<CudaContext>,
    gate: &Matrix,
    up: &Matrix,
    fp4: bool,
) -> Result<LinearMemory, BuildError> {
    let format = pack::format(gate);
    if format.is_some() && format == pack::format(up) {
        let fp4 = fp4 && format == Some(Format::Nvfp4);
        let packed = if fp4 { pack::gated_fp4(gate, up) } else { pack::gated(gate, up) };
        let part = upload(context, &packed?, fp4)?;
        return Ok(LinearMemory { cols: gate.cols, parts: vec![part] });
    }
    if (gate.rows, gate.cols) != (up.rows, up.cols) {
        let text = format!("gate is {} x {}, up {} x {}", gate.rows, gate.cols, up.rows, up.cols);
        return Err(BuildError::Shape(text));
    }
    // One part each, whatever their formats.
    let (gate, up) = (stack(context, &[gate], fp4)?, stack(context, &[up], fp4)?);
    Ok(LinearMemory { cols: gate.cols, parts: gate.parts.into_iter().chain(up.parts).collect() })
}

/// A table of rows in the checkpoint's number format.
#[derive(Debug)]
pub(super) struct TableMemory {
    pub(super) cols: usize,
    pub(super) rows: TableRows,
}

#[derive(Debug)]
pub(super) enum TableRows {
    /// Numbers, and the kernel that reads them.
    Plain { kernel: &'static str, values: Buffer },
    /// NVFP4 with its tensor scale.
    Nvfp4 { codes: Buffer, scales: Buffer, global: f32 },
}

pub(super) fn table(context: &Arc<CudaContext>, matrix: &Matrix) -> Result<TableMemory, BuildError> {
    matrix.check()?;
    let buffer = |bytes: &[u8]| Buffer::of(context, bytes).map_err(memory);
    let plain = |kernel, bytes: &[u8]| Ok::<_, BuildError>(TableRows::Plain { kernel, values: buffer(bytes)? });
    let rows = match &matrix.values {
        Values::F32(bytes) => plain("embed_f32", bytes)?,
        Values::F16(bytes) => plain("embed_f16", bytes)?,
        Values::Bf16(bytes) => plain("embed_bf16", bytes)?,
        Values::Nvfp4 { codes, scales, global } => {
            TableRows::Nvfp4 { codes: buffer(codes)?, scales: buffer(scales)?, global: *global }
        }
        Values::Fp8Block128 { .. } => {
            return Err(BuildError::Shape("an FP8 embedding is not supported on CUDA".into()));
        }
    };
    Ok(TableMemory { cols: matrix.cols, rows })
}

/// Address of an optional buffer.
pub(super) fn place(buffer: Option<&Buffer>) -> Address {
    buffer.map_or(Address::NULL, Buffer::at)
}
