//! Repacking at load: row tiles are filled by all threads at once.

use super::ROWS;
use crate::cpu::isa::Isa;
use crate::cpu::memory::Arena;
use crate::cpu::shared::Split;
use crate::cpu::threads::Threads;

/// What repacking takes.
pub(crate) struct Packer<'a> {
    pub(crate) threads: &'a mut Threads,
    pub(crate) arena: &'a mut Arena,
    /// Whose kernels will read the tiles.
    pub(crate) isa: Isa,
}

/// A part of a tile's memory, by tile.
pub(super) type Fill<'a, T> = &'a (dyn Fn(usize, &mut [T]) + Sync);

/// Calls `fill(tile, part)` for each part of `per_tile` elements.
pub(super) fn by_tile<T: Send>(threads: &mut Threads, all: &mut [T], per_tile: usize, fill: Fill<'_, T>) {
    let tiles = all.len() / per_tile.max(1);
    let all = Split::new(all);
    threads.run(tiles, &|_, tile| {
        // SAFETY: each tile is handed out once.
        fill(tile, unsafe { all.part(tile * per_tile, per_tile) });
    });
}

/// Tiles whose unit `u` holds `at(row, u)` of sixteen rows; rows that don't exist are `zero`.
pub(super) fn transposed<T: Copy + Send + Sync>(
    threads: &mut Threads,
    (rows, units): (usize, usize),
    zero: T,
    at: impl Fn(usize, usize) -> T + Sync,
) -> Vec<[T; ROWS]> {
    let mut out = vec![[zero; ROWS]; rows.div_ceil(ROWS) * units];
    by_tile(threads, &mut out, units, &|tile, part| {
        for r in 0..ROWS.min(rows - tile * ROWS) {
            for (unit, values) in part.iter_mut().enumerate() {
                values[r] = at(tile * ROWS + r, unit);
            }
        }
    });
    out
}
