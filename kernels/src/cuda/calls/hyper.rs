//! Hyper-connections.

use crate::cuda::call::{Address, Call, Floats, RowCount, args};

/// Most streams that the kernels have room for.
pub const MOST_STREAMS: u32 = 8;

/// Factors and offsets of mixes, and the small numbers that keep divisions sound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixBy {
    /// f32.
    pub scale: Address,
    /// f32.
    pub base: Address,
    /// Added to the mean square of the streams.
    pub norm_eps: f32,
    /// Added to gates, and in Sinkhorn's divisions.
    pub eps: f32,
}

fn row_call(kernel: &'static str, rows: RowCount, args: Vec<crate::cuda::call::Arg>) -> Call {
    Call { kernel, grid: [rows.most, 1, 1], block: 256, shared: 0, args }
}

fn count(streams: Floats, width: u32) -> u32 {
    let n = streams.width / width;
    assert!(n * width == streams.width && n <= MOST_STREAMS, "{} columns are no streams of {width}", streams.width);
    n
}

/// The sublayer's input, and what `hyper_post` needs.
///
/// # Panics
/// If the streams are no whole number of inputs, or more than [`MOST_STREAMS`].
#[must_use]
pub fn hyper_pre(
    streams: Floats,
    projected: Floats,
    by: MixBy,
    iterations: u32,
    [input, mix]: [Floats; 2],
    rows: RowCount,
) -> Call {
    let args = args![
        input.at,
        input.stride,
        mix.at,
        mix.stride,
        streams.at,
        streams.stride,
        projected.at,
        projected.stride,
        by.scale,
        by.base,
        count(streams, input.width),
        input.width,
        by.norm_eps,
        by.eps,
        iterations,
        rows.at,
    ];
    row_call("hyper_pre", rows, args)
}

/// Mixes the sublayer's output into the streams.
///
/// # Panics
/// As [`hyper_pre`].
#[must_use]
pub fn hyper_post(output: Floats, mix: Floats, streams: Floats, rows: RowCount) -> Call {
    let args = args![
        streams.at,
        streams.stride,
        output.at,
        output.stride,
        mix.at,
        mix.stride,
        count(streams, output.width),
        output.width,
        rows.at,
    ];
    row_call("hyper_post", rows, args)
}

/// The streams' weighted sum.
///
/// # Panics
/// As [`hyper_pre`].
#[must_use]
pub fn hyper_head(streams: Floats, projected: Floats, by: MixBy, out: Floats, rows: RowCount) -> Call {
    let args = args![
        out.at,
        out.stride,
        streams.at,
        streams.stride,
        projected.at,
        projected.stride,
        by.scale,
        by.base,
        count(streams, out.width),
        out.width,
        by.norm_eps,
        by.eps,
        rows.at,
    ];
    row_call("hyper_head", rows, args)
}
