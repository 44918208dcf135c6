//! What travels on its own: a slice of a block, which is some whole layers of it, so that layers can be sent while later ones are
//! computed.

use std::ops::Range;

use crate::exec::{CacheSpec, PoolSpec};

/// Fewest bytes of a slice: smaller ones cost more to announce than to send.
const LEAST: usize = 256 << 10;
/// Most slices of a block, about.
const MOST: usize = 16;
/// Slices that small blocks have too, about.
const FEW: usize = 4;

/// A run of layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// Their pools.
    pub(crate) pools: Range<usize>,
    /// Bytes of one block in these pools.
    pub(crate) bytes: usize,
    /// So many layers have to be complete for it to be.
    layers: u32,
}

/// The slices of every block, in ascending order of layers. They follow from the layout alone, so both ends of a link have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slices(Vec<Slice>);

impl Slices {
    pub(crate) fn of(spec: &CacheSpec) -> Self {
        let all = spec.block_bytes();
        let least = LEAST.min(all / FEW).max(all / MOST);
        let is_ascending = spec.pools.is_sorted_by_key(|p| p.layer);
        let mut slices = Vec::new();
        let (mut from, mut upto) = (0, 0);
        for layer in spec.pools.chunk_by(|a: &PoolSpec, b| a.layer == b.layer) {
            upto += layer.len();
            let bytes = spec.pool_bytes(from..upto);
            if is_ascending && bytes >= least && upto < spec.pools.len() {
                slices.push(Slice { pools: from..upto, bytes, layers: layer[0].layer + 1 });
                from = upto;
            }
        }
        // Complete with its step: what a model does behind its layers may write to the last ones.
        let pools = from..spec.pools.len();
        slices.push(Slice { bytes: spec.pool_bytes(pools.clone()), pools, layers: u32::MAX });
        Self(slices)
    }

    /// Slices of a block.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Slices that are complete when so many layers are.
    pub(crate) fn complete(&self, layers: u32) -> usize {
        self.0.partition_point(|s| s.layers <= layers)
    }

    /// The number of a page: of a slice of a sequence's block.
    pub(crate) fn page(&self, block: usize, slice: usize) -> u32 {
        (block * self.count() + slice) as u32
    }

    /// What a page is: the block's place in its sequence, and the slice.
    pub(crate) fn place(&self, page: u32) -> (usize, &Slice) {
        let page = page as usize;
        (page / self.count(), &self.0[page % self.count()])
    }

    /// Bytes of the largest slice.
    pub(crate) fn largest(&self) -> usize {
        self.0.iter().map(|s| s.bytes).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(pools: &[(u32, u32)]) -> CacheSpec {
        let pool = |&(layer, row_bytes)| PoolSpec { name: "kv", layer, tokens_per_row: 1, row_bytes };
        CacheSpec { block_tokens: 16, pools: pools.iter().map(pool).collect(), ..CacheSpec::default() }
    }

    proptest! {
        #[test]
        fn slices_are_whole_layers_and_cover_a_block(pools in prop::collection::vec((0..20_u32, 1..40_000_u32), 0..60)) {
            let mut pools = pools;
            pools.sort_by_key(|p| p.0);
            let (spec, layers) = (spec(&pools), |s: &Slice| pools[s.pools.clone()].iter().map(|p| p.0).collect::<Vec<_>>());
            let slices = Slices::of(&spec);
            let mut next = 0;
            for (number, slice) in slices.0.iter().enumerate() {
                prop_assert_eq!(slice.pools.start, next);
                next = slice.pools.end;
                prop_assert_eq!(slice.bytes, spec.pool_bytes(slice.pools.clone()));
                prop_assert_eq!(slices.place(slices.page(7, number)), (7, slice));
                let later = pools[next..].first();
                prop_assert!(layers(slice).iter().all(|l| later.is_none_or(|p| p.0 > *l)), "a layer is cut");
                // It is complete with its last layer, and not before.
                if let Some(last) = layers(slice).last().filter(|_| next < pools.len()) {
                    prop_assert_eq!((slices.complete(*last), slices.complete(*last + 1)), (number, number + 1));
                }
            }
            prop_assert_eq!(next, pools.len());
            prop_assert!(slices.count() <= MOST + 1 && slices.complete(20) == slices.count() - 1);
        }
    }

    #[test]
    fn pools_out_of_order_travel_together() {
        assert_eq!(Slices::of(&spec(&[(1, 9_000), (0, 9_000), (1, 9_000)])).count(), 1);
    }

    #[test]
    fn thirty_small_layers_travel_in_four_slices() {
        let layers: Vec<(u32, u32)> = (0..30).map(|layer| (layer, 1536)).collect();
        let slices = Slices::of(&spec(&layers));
        assert_eq!((slices.count(), slices.largest(), slices.complete(7), slices.complete(8)), (4, 196_608, 0, 1));
    }
}
