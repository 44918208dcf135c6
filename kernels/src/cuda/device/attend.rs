//! Attention: its tiles, and how their units are spread over blocks.

use std::sync::Arc;

use cudarc::driver::CudaContext;

use super::Cuda;
use super::step::{Bucket, Mirror, Step};
use super::stream::Stream;
use crate::batch::Limits;
use crate::cuda::call::RowCount;
use crate::cuda::calls::{self, AttentionAt, KvPlace, QueryRows, Spread, TilesAt, UNIT};
use crate::ops::{Attention, DeviceError, Operand};

/// Memory for partial results of sequences whose units are spread over blocks.
pub(super) const PARTIAL_BYTES: usize = 64 << 20;

/// Tiles of the present step for models whose `group` query heads read a KV head.
#[derive(Debug)]
pub(super) struct Tiles {
    group: u32,
    rows: QueryRows,
    list: Mirror<u32>,
    count: Mirror<u32>,
}

impl Tiles {
    fn new(context: &Arc<CudaContext>, limits: &Limits, group: u32, rows: QueryRows) -> Result<Self, DeviceError> {
        Ok(Self { group, rows, list: Mirror::new(context, 3 * limits.rows)?, count: Mirror::new(context, 1)? })
    }

    /// Cuts the step's rows and starts the upload, if the step uses these tiles.
    pub(super) fn load(&mut self, step: &Step, stream: &Stream) -> Result<(), DeviceError> {
        if self.rows != step.knobs().query_rows(step.bucket.rows) {
            return Ok(());
        }
        let (tiles, _) = calls::tiles(step.extents(), self.group, self.rows);
        self.count.fill([tiles.len() as u32]);
        self.list.fill(tiles.iter().flat_map(|t| [t.row, t.tokens, t.unit]));
        self.count.upload(stream)?;
        self.list.upload(stream)
    }

    /// At most a tile for each row, and no more than full ones and one that is not full for each sequence.
    fn at(&self, bucket: Bucket, slots: usize) -> TilesAt {
        let tokens = (self.rows.count() / self.group.min(16)).max(1);
        let most = bucket.rows.min(bucket.rows.div_ceil(tokens) + slots as u32);
        TilesAt { list: self.list.at(), count: RowCount { at: self.count.at(), most }, rows: self.rows }
    }
}

impl Cuda {
    /// The step's tiles for a group; made when a model first asks.
    fn tiles(&mut self, group: u32) -> Result<TilesAt, DeviceError> {
        let bucket = self.step.bucket;
        let rows = self.knobs.query_rows(bucket.rows);
        let found = self.tiles.iter().position(|t| t.group == group && t.rows == rows);
        let index = match found {
            Some(index) => index,
            None => {
                let mut tiles = Tiles::new(&self.context, &self.limits, group, rows)?;
                tiles.load(&self.step, &self.stream)?;
                self.tiles.push(tiles);
                self.tiles.len() - 1
            }
        };
        Ok(self.tiles[index].at(bucket, self.limits.slots))
    }

    /// Few blocks leave a GPU idle, so long contexts are split if their partial results fit the memory for them.
    fn spread(&self, tiles: &TilesAt, q_heads: u32, kv: &KvPlace) -> Spread {
        let most_units = self.step.bucket.context.div_ceil(UNIT);
        let groups = kv.heads * (q_heads / kv.heads).div_ceil(16);
        let blocks = tiles.count.most * groups;
        let splits = self.knobs.attention_blocks.div_ceil(blocks.max(1)).min(most_units);
        let units = tiles.count.most * most_units;
        let fits = calls::partial_numbers(units, q_heads, kv, tiles.rows) * 4 <= PARTIAL_BYTES;
        if splits < 2 || most_units < 16 || !fits {
            return Spread::Whole;
        }
        Spread::Split { per_block: most_units.div_ceil(splits), most_units, partials: self.partials.at() }
    }

    pub(super) fn attend(&mut self, args: &Attention, kv: KvPlace, out: Operand) {
        let q_heads = args.q_heads as u32;
        let tiles = self.tiles(q_heads / kv.heads);
        let Some(tiles) = self.keep(tiles) else { return };
        if !calls::HEAD_DIMS.contains(&kv.dim) {
            let text = format!("no CUDA attention kernel for heads of {}; there are {:?}", kv.dim, calls::HEAD_DIMS);
            self.failure.get_or_insert(DeviceError(text));
            return;
        }
        let at = AttentionAt {
            q: self.floats(args.q),
            kv,
            scale: args.scale,
            out: self.inputs(out),
            step: self.step.at(),
            tiles,
        };
        let spread = self.spread(&tiles, q_heads, &kv);
        self.add(calls::attention(&at, spread));
        if let Spread::Split { partials, .. } = spread {
            self.add(calls::attention_merge(&at, partials));
        }
    }
}
