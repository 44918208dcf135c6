//! Sampling on the GPU: after the step's recording, two launches of their own; tokens come back through pinned memory.

use std::sync::Arc;

use cudarc::driver::CudaContext;

use super::Cuda;
use super::memory::{Buffer, Pinned};
use super::step::Mirror;
use super::stream::Stream;
use crate::cuda::call::{Address, RowCount};
use crate::cuda::calls::{self, AdjustBy, SampleWish};
use crate::draw::{DrawBy, DrawOps, DrawRow, Shown};
use crate::ops::{Act, DeviceError, Rows};

/// Words of a wish.
const WISH: usize = 14;

/// What the step's rows ask for, and what was drawn.
#[derive(Debug)]
pub(super) struct Drawing {
    /// Wishes, seen tokens, biases and masks, one after another.
    words: Vec<u32>,
    sent: Mirror<u32>,
    most: usize,
    tokens: Buffer,
    shown: Pinned<u32>,
}

/// Where the parts of what was sent begin, in words.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    seen: usize,
    biases: usize,
    masks: Option<usize>,
}

impl Drawing {
    fn new(context: &Arc<CudaContext>, rows: usize) -> Result<Self, DeviceError> {
        let most = rows * WISH;
        Ok(Self {
            words: Vec::new(),
            sent: Mirror::new(context, most)?,
            most,
            tokens: Buffer::zeroed(context, rows * 4)?,
            shown: Pinned::zeroed(context, rows)?,
        })
    }

    /// Writes what is asked as the kernels read it. Rows of which nothing is asked take their largest logit.
    fn write(&mut self, rows: &[Option<DrawRow<'_>>], width: usize) -> Parts {
        let words = &mut self.words;
        words.clear();
        let (mut seen, mut biases) = (0, 0);
        for row in rows {
            let (first_seen, first_bias) = (seen, biases);
            seen += row.map_or(0, |r| r.seen.len() as u32);
            biases += row.map_or(0, |r| r.biases.len() as u32);
            words.extend(wish(row.as_ref(), (first_seen, seen), (first_bias, biases)).words());
        }
        let asked = || rows.iter().flatten();
        let mut parts = Parts { seen: words.len(), ..Parts::default() };
        asked().for_each(|r| words.extend(r.seen.as_flattened()));
        parts.biases = words.len();
        asked().for_each(|r| words.extend(r.biases.iter().flat_map(|(id, bias)| [*id, bias.to_bits()])));
        if asked().any(|r| r.mask.is_some()) {
            parts.masks = Some(words.len());
            let each = width.div_ceil(32);
            for row in rows {
                let mask = row.and_then(|r| r.mask).unwrap_or_default();
                words.extend(mask.iter().take(each));
                let all = if row.is_some_and(|r| r.mask.is_some()) { 0 } else { !0 };
                words.extend(std::iter::repeat_n(all, each - mask.len().min(each)));
            }
        }
        parts
    }

    /// Sends what was written. Memory grows with the longest histories and is kept.
    fn send(&mut self, context: &Arc<CudaContext>, stream: &Stream) -> Result<Address, DeviceError> {
        if self.words.len() > self.most {
            self.most = self.words.len().next_power_of_two();
            self.sent = Mirror::new(context, self.most)?;
        }
        self.sent.fill(self.words.iter().copied());
        self.sent.upload(stream)?;
        Ok(self.sent.at())
    }
}

fn wish(row: Option<&DrawRow<'_>>, seen: (u32, u32), biases: (u32, u32)) -> SampleWish {
    let count = |(from, to): (u32, u32)| (from, to - from);
    SampleWish { by: row.map_or(DrawBy::GREEDY, |row| row.by), seen: count(seen), biases: count(biases) }
}

impl Cuda {
    /// Shows one row of logits.
    fn show_row(&mut self, logits: Act, row: usize, shown: Shown<'_>) -> Result<(), DeviceError> {
        let most = self.most(Rows::Samples);
        let memory = &mut self.acts[logits.id as usize];
        let (stride, from) = (memory.stride, row * memory.stride + logits.from as usize);
        let pinned = match &mut memory.shown {
            Some(pinned) => pinned,
            none => none.insert(Pinned::zeroed(&self.context, most * stride)?),
        };
        let part = &mut pinned.values()[from..from + logits.width()];
        self.stream.download(memory.values.at().plus(from * 4), part)?;
        shown(row, part);
        Ok(())
    }

    fn draw_rows(
        &mut self,
        logits: Act,
        rows: &[Option<DrawRow<'_>>],
        drawn: &mut Vec<u32>,
        shown: Shown<'_>,
    ) -> Result<(), DeviceError> {
        self.finish_recording()?;
        for row in (0..rows.len()).filter(|&row| rows[row].is_none()) {
            self.show_row(logits, row, shown)?;
        }
        let mut drawing = match self.drawing.take() {
            Some(drawing) => drawing,
            None => Drawing::new(&self.context, self.most(Rows::Samples))?,
        };
        let parts = drawing.write(rows, logits.width());
        let sent = drawing.send(&self.context, &self.stream)?;
        let at = |words: usize| sent.plus(words * 4);
        let mask_stride = logits.width().div_ceil(32) as u32;
        let mask = parts.masks.map_or(Address::NULL, at);
        let by = AdjustBy { seen: at(parts.seen), biases: at(parts.biases), mask, mask_stride };
        let count = RowCount { most: rows.len() as u32, ..self.step.launch_rows(Rows::Samples) };
        let (floats, tokens) = (self.floats(logits), drawing.tokens.at());
        for call in [calls::adjust_logits(floats, sent, by, count), calls::sample(floats, sent, tokens, count)] {
            self.kernels.launch(&self.stream, &call)?;
        }
        let found = &mut drawing.shown.values()[..rows.len()];
        self.stream.download(tokens, found)?;
        drawn.extend_from_slice(found);
        self.drawing = Some(drawing);
        Ok(())
    }
}

impl DrawOps for Cuda {
    fn draws(&self, _: &DrawBy, _: bool) -> bool {
        true
    }

    fn draw(
        &mut self,
        logits: Act,
        rows: &[Option<DrawRow<'_>>],
        drawn: &mut Vec<u32>,
        shown: Shown<'_>,
    ) -> Result<(), DeviceError> {
        drawn.clear();
        if rows.is_empty() {
            return self.finish_recording().and_then(|()| self.stream.finish());
        }
        self.draw_rows(logits, rows, drawn, shown).map_err(|e| self.failure.get_or_insert(e).clone())
    }
}
