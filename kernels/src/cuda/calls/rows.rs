//! Launches that take one block a row.

use crate::cuda::call::{Address, Call, Floats, Inputs, RowCount, args};

/// Threads for a row of `width` numbers. A function of the width alone: reductions depend on it.
pub(super) fn threads(width: u32, most: u32) -> u32 {
    width.div_ceil(4).next_multiple_of(32).min(most)
}

fn row_call(kernel: &'static str, rows: RowCount, block: u32, args: Vec<crate::cuda::call::Arg>) -> Call {
    Call { kernel, grid: [rows.most, 1, 1], block, shared: 0, args }
}

/// RMS norm of each row, times a gain.
#[must_use]
pub fn rms_norm(x: Floats, gain: Address, eps: f32, out: Inputs, rows: RowCount) -> Call {
    let args =
        args![out.halves, out.half_stride, out.floats, out.float_stride, x.at, x.stride, gain, x.width, eps, rows.at];
    row_call("rms_norm", rows, threads(x.width, 1024), args)
}

/// Rows in the forms that linears read.
#[must_use]
pub fn convert(x: Floats, out: Inputs, rows: RowCount) -> Call {
    let args = args![out.halves, out.half_stride, out.floats, out.float_stride, x.at, x.stride, x.width, rows.at];
    row_call("convert", rows, threads(x.width, 256), args)
}

/// `silu(gate) * up`, both `gate.width` wide and of one stride; no limit is infinity.
#[must_use]
pub fn silu_up(gate: Floats, up: Address, limit: f32, out: Inputs, rows: RowCount) -> Call {
    let args = args![
        out.halves,
        out.half_stride,
        out.floats,
        out.float_stride,
        gate.at,
        up,
        gate.stride,
        gate.width,
        limit,
        rows.at
    ];
    row_call("silu_up", rows, threads(gate.width, 256), args)
}

/// Copies the rows whose numbers `samples` lists.
#[must_use]
pub fn gather_rows(x: Floats, samples: Address, out: Floats, count: RowCount) -> Call {
    let args = args![out.at, out.stride, x.at, x.stride, x.width, samples, count.at];
    row_call("gather_rows", count, threads(x.width, 256), args)
}

/// Column of each row's largest number, to `out`.
#[must_use]
pub fn argmax(x: Floats, out: Address, rows: RowCount) -> Call {
    row_call("argmax", rows, threads(x.width, 1024), args![out, x.at, x.stride, x.width, rows.at])
}

/// Rows of a table of plain numbers: `kernel` is `embed_f32`, `embed_bf16` or `embed_f16`.
#[must_use]
pub fn embed(kernel: &'static str, table: Address, tokens: Address, out: Floats, rows: RowCount) -> Call {
    let args = args![out.at, out.stride, table, out.width, tokens, rows.at];
    row_call(kernel, rows, threads(out.width, 256), args)
}

/// Rows of an NVFP4 table in the checkpoint's layout: codes, block scales, tensor scale.
#[must_use]
pub fn embed_nvfp4(table: (Address, Address, f32), tokens: Address, out: Floats, rows: RowCount) -> Call {
    let (codes, scales, global) = table;
    let args = args![out.at, out.stride, codes, scales, global, out.width, tokens, rows.at];
    row_call("embed_nvfp4", rows, threads(out.width, 256), args)
}
