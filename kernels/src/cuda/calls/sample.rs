//! From logits to tokens.

use super::rows::threads;
use crate::cuda::call::{Address, Call, Floats, RowCount, args};
use crate::draw::DrawBy;

/// What a row asks for; on the device fourteen words in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleWish {
    /// How.
    pub by: DrawBy,
    /// First entry and number of entries in [`AdjustBy::seen`].
    pub seen: (u32, u32),
    /// First entry and number of entries in [`AdjustBy::biases`].
    pub biases: (u32, u32),
}

impl SampleWish {
    /// As the kernels read it.
    #[must_use]
    pub fn words(&self) -> [u32; 14] {
        let by = &self.by;
        [
            by.temperature.to_bits(),
            by.top_k,
            by.top_p.to_bits(),
            by.min_p.to_bits(),
            by.seed as u32,
            (by.seed >> 32) as u32,
            by.position,
            by.repetition.to_bits(),
            by.frequency.to_bits(),
            by.presence.to_bits(),
            self.seen.0,
            self.seen.1,
            self.biases.0,
            self.biases.1,
        ]
    }
}

/// What logits are changed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjustBy {
    /// Three `u32` for each different token that a row has seen: its number, how often, how often in the output.
    pub seen: Address,
    /// Two `u32`: a token, and the bits of what is added to its logit.
    pub biases: Address,
    /// A bit for each token that may follow, or null.
    pub mask: Address,
    /// Words of a row's mask.
    pub mask_stride: u32,
}

/// Bias, penalties and mask, in place.
#[must_use]
pub fn adjust_logits(logits: Floats, wishes: Address, by: AdjustBy, rows: RowCount) -> Call {
    let args =
        args![logits.at, logits.stride, logits.width, wishes, by.seen, by.biases, by.mask, by.mask_stride, rows.at];
    Call { kernel: "adjust_logits", grid: [rows.most, 1, 1], block: threads(logits.width, 1024), shared: 0, args }
}

/// Draws a token for each row; all ones where there is none to draw.
#[must_use]
pub fn sample(logits: Floats, wishes: Address, out: Address, rows: RowCount) -> Call {
    let args = args![out, logits.at, logits.stride, logits.width, wishes, rows.at];
    Call { kernel: "sample", grid: [rows.most, 1, 1], block: threads(logits.width, 1024), shared: 0, args }
}
