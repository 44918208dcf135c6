//! Drawing tokens where the logits are, so that tokens travel to the host and not logits.

use crate::ops::{Act, DeviceError};

/// How a row's token is drawn. The order of what is done, the generator and the ranking of equal logits are those of the backend's
/// sampler: equal logits give equal tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawBy {
    /// 0 takes the largest logit, of equal ones the first.
    pub temperature: f32,
    /// 0 keeps all.
    pub top_k: u32,
    /// Share of the weight that best-ranked tokens have together; 1 keeps all.
    pub top_p: f32,
    /// Least weight, as a share of the likeliest token's; 0 keeps all.
    pub min_p: f32,
    /// Decides the draw, together with the position.
    pub seed: u64,
    /// Position of the token to draw.
    pub position: u32,
    /// Divides positive and multiplies negative logits of tokens seen before; 1 does nothing.
    pub repetition: f32,
    /// Taken from a logit for each time that its token is in the output.
    pub frequency: f32,
    /// Taken once.
    pub presence: f32,
}

impl DrawBy {
    /// Takes the largest logit as it is.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        seed: 0,
        position: 0,
        repetition: 1.0,
        frequency: 0.0,
        presence: 0.0,
    };
}

/// What a row asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawRow<'a> {
    /// How.
    pub by: DrawBy,
    /// Different tokens seen before: number, how often, how often in the output.
    pub seen: &'a [[u32; 3]],
    /// Different tokens, and what is added to their logits.
    pub biases: &'a [(u32, f32)],
    /// A bit for each token that may follow, lowest first, as many as there are logits.
    pub mask: Option<&'a [u32]>,
}

/// Where the logits of rows go that the host draws itself.
pub type Shown<'a> = &'a mut dyn FnMut(usize, &mut [f32]);

/// Drawing on the device; one that can't shows its logits ([`Ops::host`](crate::ops::Ops::host)).
pub trait DrawOps {
    /// Whether the device draws for rows that ask for this, and for `biased` ones.
    fn draws(&self, by: &DrawBy, biased: bool) -> bool {
        let _ = (by, biased);
        false
    }

    /// Waits for the step and draws for each row of `logits`, in order, into `drawn`; all ones where no token can be drawn. A row
    /// of which nothing is asked is shown as it is, and what `drawn` says of it means nothing. Changes the logits.
    ///
    /// # Errors
    /// [`DeviceError`] if any operation since `begin` failed.
    fn draw(
        &mut self,
        logits: Act,
        rows: &[Option<DrawRow<'_>>],
        drawn: &mut Vec<u32>,
        shown: Shown<'_>,
    ) -> Result<(), DeviceError> {
        let _ = (logits, rows, drawn, shown);
        Err(DeviceError("this device does not draw tokens".into()))
    }
}
