//! Compressed sparse attention on the GPU, and the lists that it needs of a step: sequences, and the groups that they complete.

use std::sync::Arc;

use cudarc::driver::CudaContext;

use super::Cuda;
use super::memory::Buffer;
use super::step::{Angles, Mirror, Step};
use super::stream::Stream;
use crate::batch::Limits;
use crate::cuda::call::{Address, RowCount};
use crate::cuda::calls::{self, CompressAt, ExtentsAt, RingPlace, RopeRows, RowsPlace, ScoresAt, SparseAt, StoreCode};
use crate::ops::{Act, DeviceError, Pool, Rope};
use crate::rows::RowStore;
use crate::sparse::{Compress, FinishRows, RotateTails, Select, SparseAttention, SparseOps, WindowPool};

/// The step's sequences: first row, rows, position of the first, first entry of the block table.
#[derive(Debug)]
pub(super) struct Extents {
    list: Mirror<u32>,
    count: Mirror<u32>,
}

impl Extents {
    fn new(context: &Arc<CudaContext>, limits: &Limits) -> Result<Self, DeviceError> {
        Ok(Self { list: Mirror::new(context, 4 * limits.slots)?, count: Mirror::new(context, 1)? })
    }

    pub(super) fn load(&mut self, step: &Step, stream: &Stream) -> Result<(), DeviceError> {
        let extents = step.extents();
        self.count.fill([extents.len() as u32]);
        self.list.fill(extents.iter().flat_map(|e| [e.row, e.rows, e.start, e.table]));
        self.count.upload(stream)?;
        self.list.upload(stream)
    }
}

/// Groups of `ratio` tokens that the step completes: their angles, and each sequence's first.
#[derive(Debug)]
pub(super) struct Groups {
    rope: Rope,
    ratio: u32,
    angles: Mirror<f32>,
    first: Mirror<u32>,
}

impl Groups {
    pub(super) fn load(&mut self, step: &Step, ropes: &[Angles], stream: &Stream) -> Result<(), DeviceError> {
        let (ratio, rope) = (self.ratio, &ropes[self.rope.0 as usize]);
        let mut first = 0;
        let firsts = step.extents().iter().map(|e| {
            let mine = first;
            first += (e.start + e.rows) / ratio - e.start / ratio;
            mine
        });
        self.first.fill(firsts.collect::<Vec<_>>());
        let completed = step.extents().iter().flat_map(|e| e.start / ratio..(e.start + e.rows) / ratio);
        let angles: Vec<f32> = completed.flat_map(|group| rope.of_position(group * ratio)).collect();
        self.angles.fill(angles);
        self.first.upload(stream)?;
        self.angles.upload(stream)
    }
}

impl Cuda {
    fn rope_rows(&self, rope: Rope) -> RopeRows {
        let angles = &self.angles[rope.0 as usize];
        let (cosines, sines) = angles.at();
        RopeRows { cosines, sines, frequencies: angles.frequencies(), interleaved: true }
    }

    fn rows_place(&self, pool: Pool, ratio: usize, store: RowStore) -> Result<RowsPlace, DeviceError> {
        let block_tokens = self.limits.block_tokens as u32;
        let pool = self.pools[pool.0 as usize].memory.at();
        Ok(RowsPlace { pool, store: store_code(store)?, ratio: ratio as u32, block_tokens })
    }

    fn ring_place(&self, window: &WindowPool) -> Result<RingPlace, DeviceError> {
        Ok(RingPlace {
            pool: self.pools[window.pool.0 as usize].memory.at(),
            store: store_code(window.store)?,
            ring: window.ring as u32,
            block_tokens: self.limits.block_tokens as u32,
        })
    }

    /// The step's sequences; their list is made when a model first asks.
    fn extents_at(&mut self) -> Result<ExtentsAt, DeviceError> {
        if self.extents.is_none() {
            let mut extents = Extents::new(&self.context, &self.limits)?;
            extents.load(&self.step, &self.stream)?;
            self.extents = Some(extents);
        }
        let (list, count) =
            self.extents.as_ref().map_or((Address::NULL, Address::NULL), |e| (e.list.at(), e.count.at()));
        let most = self.step.bucket.rows.min(self.limits.slots as u32);
        Ok(ExtentsAt { list, count: RowCount { at: count, most }, block_tables: self.step.at().block_tables })
    }

    /// Angles of completed groups, and each sequence's first group.
    fn groups_at(&mut self, rope: Rope, ratio: usize) -> Result<(Address, Address), DeviceError> {
        let ratio = ratio as u32;
        let found = self.groups.iter().position(|g| g.rope == rope && g.ratio == ratio);
        let index = match found {
            Some(index) => index,
            None => {
                // A step of n rows completes no more than n groups.
                let numbers = 2 * self.angles[rope.0 as usize].frequencies() as usize * self.limits.rows;
                let (angles, first) =
                    (Mirror::new(&self.context, numbers)?, Mirror::new(&self.context, self.limits.slots)?);
                let mut groups = Groups { rope, ratio, angles, first };
                groups.load(&self.step, &self.angles, &self.stream)?;
                self.groups.push(groups);
                self.groups.len() - 1
            }
        };
        Ok((self.groups[index].angles.at(), self.groups[index].first.at()))
    }

    /// Memory for intermediate results of one launch, which older recordings keep using.
    fn scratch(&mut self, bytes: usize) -> Result<Address, DeviceError> {
        if let Some(found) = self.scratch.last().filter(|b| b.bytes() >= bytes) {
            return Ok(found.at());
        }
        let doubled = self.scratch.last().map_or(0, |b| 2 * b.bytes());
        self.scratch.push(Buffer::zeroed(&self.context, bytes.max(doubled))?);
        Ok(self.scratch.last().map_or(Address::NULL, Buffer::at))
    }

    fn add_compress(&mut self, args: &Compress) -> Result<(), DeviceError> {
        let extents = self.extents_at()?;
        let (angles, first_group) = self.groups_at(args.rope, args.ratio)?;
        let width = args.values.width() / if args.overlap { 2 } else { 1 };
        let begun = self.scratch(self.limits.slots * Compress::state_bytes(width, args.overlap))?;
        let to = self.rows_place(args.pool, args.ratio, args.store)?;
        let vector = |v: crate::ops::Vector| self.vectors[v.0 as usize].values.at();
        let at = CompressAt {
            values: self.floats(args.values),
            scores: self.floats(args.scores),
            place: vector(args.place),
            width: width as u32,
            overlap: args.overlap,
            gain: vector(args.gain),
            eps: args.eps,
            angles,
            frequencies: self.angles[args.rope.0 as usize].frequencies(),
            first_group,
            states: self.pools[args.state.0 as usize].memory.at(),
            slots: args.slots as u32,
            begun,
            rounding: args.rounding,
            to,
        };
        calls::compress(&at, extents).into_iter().for_each(|call| self.add(call));
        Ok(())
    }

    fn add_select(&mut self, args: &Select) -> Result<(), DeviceError> {
        let room = self.step.bucket.context.div_ceil(args.ratio as u32);
        let at = self.scratch(self.step.bucket.rows as usize * room as usize * 4)?;
        let from = self.rows_place(args.pool, args.ratio, args.store)?;
        let (q, weights, step) = (self.floats(args.q), self.floats(args.weights), self.step.at());
        let out = self.picks[args.out.0 as usize].at();
        let launches = calls::select(q, weights, args.factor, from, (ScoresAt { at, room }, out), step);
        launches.into_iter().for_each(|call| self.add(call));
        Ok(())
    }

    fn add_finish(&mut self, args: &FinishRows) -> Result<(), DeviceError> {
        let gain = self.vectors[args.gain.0 as usize].values.at();
        let (x, rope, rows) = (self.floats(args.rows), self.rope_rows(args.rope), self.rows_of(args.rows));
        let to = (args.rounding, store_code(args.store)?);
        self.add(calls::finish_rows(x, (gain, args.eps), rope, to, rows));
        Ok(())
    }

    fn add_attention(&mut self, args: &SparseAttention) -> Result<(), DeviceError> {
        if args.first > 0 {
            return Err(DeviceError("no CUDA kernel attends to a window whose first rows are missing".into()));
        }
        let mut most_far = 0;
        let far = match args.compressed {
            None => None,
            Some(c) => {
                let picks = c.picks.map(|p| self.picks[p.0 as usize].at());
                let visible = self.step.bucket.context.div_ceil(c.ratio as u32);
                most_far = picks.map_or(visible, |p| p.k.min(visible));
                Some((self.rows_place(c.pool, c.ratio, c.store)?, picks))
            }
        };
        let at = SparseAt {
            q: self.floats(args.q),
            heads: args.heads as u32,
            scale: args.scale,
            window: args.window as u32,
            rows: self.floats(args.rows),
            earlier: self.ring_place(&args.earlier)?,
            far,
            most_far,
            sinks: self.vectors[args.sinks.0 as usize].values.at(),
            rope: self.rope_rows(args.rope),
            out: self.floats(args.out),
        };
        self.add(calls::sparse_attention(&at, self.step.at()));
        Ok(())
    }
}

fn store_code(store: RowStore) -> Result<StoreCode, DeviceError> {
    StoreCode::new(store).ok_or_else(|| DeviceError(format!("no CUDA kernel keeps rows as {store:?}")))
}

impl SparseOps for Cuda {
    fn rotate_tails(&mut self, args: &RotateTails) {
        let (heads, rows, rope) = (self.floats(args.heads), self.rows_of(args.heads), self.rope_rows(args.rope));
        self.add(calls::rotate_tails(heads, args.count as u32, args.norm_eps, rope, args.rounding, rows));
    }

    fn finish_rows(&mut self, args: &FinishRows) {
        let added = self.add_finish(args);
        self.keep(added);
    }

    fn keep_rows(&mut self, rows: Act, to: &WindowPool) {
        let place = self.ring_place(to);
        if let Some(place) = self.keep(place) {
            self.add(calls::keep_rows(self.floats(rows), place, self.step.at()));
        }
    }

    fn preceding_rows(&mut self, _: Act, _: &WindowPool, _: Act) {
        self.keep(Err::<(), _>(DeviceError("no CUDA kernel looks one row back, so drafting layers can't run".into())));
    }

    fn compress(&mut self, args: &Compress) {
        let added = self.add_compress(args);
        self.keep(added);
    }

    fn select(&mut self, args: &Select) {
        let added = self.add_select(args);
        self.keep(added);
    }

    fn sparse_attention(&mut self, args: &SparseAttention) {
        let added = self.add_attention(args);
        self.keep(added);
    }
}
