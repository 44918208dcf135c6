//! The present step's metadata: written to pinned memory, copied to fixed places, from which recorded launches read.

use std::sync::Arc;

use cudarc::driver::CudaContext;

use super::knobs::Knobs;
use super::memory::{Buffer, Pinned, Plain};
use super::stream::Stream;
use crate::batch::{Batch, Extent, Limits, Pass};
use crate::cuda::call::{Address, RowCount};
use crate::cuda::calls::StepAt;
use crate::ops::{DeviceError, Rows};

/// A list on both sides.
#[derive(Debug)]
pub(super) struct Mirror<T> {
    host: Pinned<T>,
    device: Buffer,
    len: usize,
}

impl<T: Plain> Mirror<T> {
    pub(super) fn new(context: &Arc<CudaContext>, most: usize) -> Result<Self, DeviceError> {
        let device = Buffer::zeroed(context, most * size_of::<T>())?;
        Ok(Self { host: Pinned::zeroed(context, most)?, device, len: 0 })
    }

    pub(super) fn fill(&mut self, values: impl IntoIterator<Item = T>) {
        self.len = 0;
        for (to, value) in self.host.values().iter_mut().zip(values) {
            *to = value;
            self.len += 1;
        }
    }

    pub(super) fn upload(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        stream.upload(&mut self.host, self.len, self.device.at())
    }

    pub(super) fn at(&self) -> Address {
        self.device.at()
    }
}

/// Rotary frequencies, and the angles of the step's rows.
#[derive(Debug)]
pub(super) struct Angles {
    frequencies: Vec<f64>,
    factor: f64,
    cosines: Mirror<f32>,
    sines: Mirror<f32>,
}

impl Angles {
    pub(super) fn new(
        context: &Arc<CudaContext>,
        frequencies: &[f64],
        factor: f64,
        rows: usize,
    ) -> Result<Self, DeviceError> {
        let most = rows * frequencies.len();
        let (cosines, sines) = (Mirror::new(context, most)?, Mirror::new(context, most)?);
        Ok(Self { frequencies: frequencies.to_vec(), factor, cosines, sines })
    }

    /// In double precision, as on the CPU: far positions lose nothing.
    fn prepare(&mut self, positions: &[u32], stream: &Stream) -> Result<(), DeviceError> {
        let angle = |position: &u32| {
            let position = f64::from(*position);
            self.frequencies.iter().map(move |f| position * f)
        };
        let factor = self.factor;
        self.cosines.fill(positions.iter().flat_map(angle).map(|a| (a.cos() * factor) as f32));
        self.sines.fill(positions.iter().flat_map(angle).map(|a| (a.sin() * factor) as f32));
        self.cosines.upload(stream)?;
        self.sines.upload(stream)
    }

    /// Cosines, then sines, of any position.
    pub(super) fn of_position(&self, position: u32) -> Vec<f32> {
        let angles = || self.frequencies.iter().map(|f| f64::from(position) * f);
        let factor = self.factor;
        angles().map(|a| (a.cos() * factor) as f32).chain(angles().map(|a| (a.sin() * factor) as f32)).collect()
    }

    pub(super) fn frequencies(&self) -> u32 {
        self.frequencies.len() as u32
    }

    pub(super) fn at(&self) -> (Address, Address) {
        (self.cosines.at(), self.sines.at())
    }
}

/// What shapes a recording's grids: it serves every batch that is no larger, under the same knobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Bucket {
    pub(super) rows: u32,
    pub(super) samples: u32,
    /// Longest sequence, in tokens.
    pub(super) context: u32,
    /// Which of the model's sequences of operations.
    pub(super) pass: Pass,
    pub(super) knobs: Knobs,
}

/// Numbers of rows and samples, and lists by row.
#[derive(Debug)]
pub(super) struct Step {
    limits: Limits,
    knobs: Knobs,
    /// Rows, samples.
    counts: Mirror<u32>,
    tokens: Mirror<u32>,
    positions: Mirror<u32>,
    starts: Mirror<u32>,
    ends: Mirror<u32>,
    tables: Mirror<u32>,
    block_tables: Mirror<u32>,
    samples: Mirror<u32>,
    position_list: Vec<u32>,
    extents: Vec<Extent>,
    pub(super) bucket: Bucket,
    rows: usize,
    sampled: usize,
}

impl Step {
    pub(super) fn new(context: &Arc<CudaContext>, limits: Limits) -> Result<Self, DeviceError> {
        let list = |most| Mirror::new(context, most);
        Ok(Self {
            limits,
            knobs: Knobs::default(),
            counts: list(2)?,
            tokens: list(limits.rows)?,
            positions: list(limits.rows)?,
            starts: list(limits.rows)?,
            ends: list(limits.rows)?,
            tables: list(limits.rows)?,
            block_tables: list(limits.table_entries)?,
            samples: list(limits.samples)?,
            position_list: Vec::with_capacity(limits.rows),
            extents: Vec::with_capacity(limits.rows),
            bucket: Bucket::default(),
            rows: 0,
            sampled: 0,
        })
    }

    /// Takes a batch and starts its upload. The step before must have been waited for.
    pub(super) fn load(
        &mut self,
        batch: &Batch<'_>,
        angles: &mut [Angles],
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        (self.rows, self.sampled) = (batch.tokens.len(), batch.samples.len());
        let extents = || batch.extents.iter();
        self.extents.clear();
        self.extents.extend_from_slice(batch.extents);
        self.position_list.clear();
        self.position_list.extend(extents().flat_map(|e| e.start..e.start + e.rows));
        self.counts.fill([self.rows as u32, self.sampled as u32]);
        self.tokens.fill(batch.tokens.iter().copied());
        self.positions.fill(self.position_list.iter().copied());
        let by_row =
            |value: fn(&Extent) -> u32| extents().flat_map(move |e| std::iter::repeat_n(value(e), e.rows as usize));
        self.starts.fill(by_row(|e| e.start));
        self.ends.fill(by_row(|e| e.start + e.rows));
        self.tables.fill(by_row(|e| e.table));
        self.block_tables.fill(batch.block_tables.iter().copied());
        self.samples.fill(batch.samples.iter().copied());
        let lists = [
            &mut self.counts,
            &mut self.tokens,
            &mut self.positions,
            &mut self.starts,
            &mut self.ends,
            &mut self.tables,
            &mut self.block_tables,
            &mut self.samples,
        ];
        for list in lists {
            list.upload(stream)?;
        }
        for rope in angles {
            rope.prepare(&self.position_list, stream)?;
        }
        let longest = extents().map(|e| e.start + e.rows).max().unwrap_or(0) as usize;
        self.bucket = Bucket {
            rows: self.knobs.bucket(self.rows, self.limits.rows),
            samples: self.knobs.bucket(self.sampled, self.limits.samples),
            context: longest.next_power_of_two().max(1024) as u32,
            pass: batch.pass,
            knobs: self.knobs,
        };
        Ok(())
    }

    pub(super) fn tune(&mut self, knobs: Knobs) {
        self.knobs = knobs;
    }

    pub(super) fn knobs(&self) -> Knobs {
        self.knobs
    }

    /// Sequences of the present step.
    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Rows of the present step.
    pub(super) fn count(&self, rows: Rows) -> usize {
        match rows {
            Rows::Batch => self.rows,
            Rows::Samples => self.sampled,
        }
    }

    /// Rows for launches.
    pub(super) fn launch_rows(&self, rows: Rows) -> RowCount {
        let counts = self.counts.at();
        match rows {
            Rows::Batch => RowCount { at: counts, most: self.bucket.rows },
            Rows::Samples => RowCount { at: counts.plus(4), most: self.bucket.samples },
        }
    }

    pub(super) fn at(&self) -> StepAt {
        StepAt {
            positions: self.positions.at(),
            starts: self.starts.at(),
            ends: self.ends.at(),
            tables: self.tables.at(),
            block_tables: self.block_tables.at(),
            rows: self.launch_rows(Rows::Batch),
        }
    }

    pub(super) fn tokens(&self) -> Address {
        self.tokens.at()
    }

    pub(super) fn samples(&self) -> Address {
        self.samples.at()
    }
}
