//! The loops over row tiles and tokens, shared between threads.

use std::ops::Range;

use super::largest::Largest;
use super::nvfp4::{Nvfp4Tiles, PanelCell};
use super::{Column, Part, ROWS, Rounding, Stack, Tiles};
use crate::cpu::cells::{Cell, TILE, cells_of};
use crate::cpu::isa::Isa;
use crate::cpu::math::silu;
use crate::cpu::shared::Split;
use crate::cpu::threads::Threads;
use crate::nvfp4::round_row;
use crate::rows::{ACTIVATION_GROUP, fp8_groups};

/// Rows whose activations stay in a core's cache while it works through its tiles; whole token tiles.
const TOKEN_BLOCK: usize = 16 * TILE;
/// Chunks that each thread should get, so that a thread whose core is busy can leave some to others.
const CHUNKS_A_THREAD: usize = 4;

/// A batch in the forms that linears read; a form nobody reads is empty.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) rows: usize,
    pub(crate) floats: &'a [f32],
    pub(crate) cells: &'a [Cell],
}

/// The float form of a batch after rounding, for the parts that want it so; empty if none does.
struct Rounded {
    fp8: Vec<f32>,
    nvfp4: Vec<f32>,
}

fn rounded(w: &Stack, x: Input<'_>) -> Rounded {
    let after = |rounding: Rounding, round: fn(&mut [f32])| {
        if !w.parts.iter().any(|p| p.rounds == rounding) {
            return Vec::new();
        }
        let mut values = x.floats[..x.rows * w.cols].to_vec();
        values.chunks_exact_mut(w.cols).for_each(round);
        values
    };
    Rounded {
        fp8: after(Rounding::Fp8, |row| fp8_groups(row, ACTIVATION_GROUP)),
        nvfp4: after(Rounding::Nvfp4, round_row),
    }
}

/// Work on some row tiles for some rows of the batch.
type Job<'a> = &'a (dyn Fn(&mut Scratch, Range<usize>, Range<usize>) + Sync);

/// A tile's weights, decoded.
#[derive(Debug, Default)]
pub(crate) struct Panels {
    floats: Vec<Column>,
    pub(super) integers: Vec<PanelCell>,
}

/// Results of two tiles for one token: what a cell of the next operand is made of.
pub(crate) type Pair = [f32; 2 * ROWS];

/// One thread's scratch.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) panels: Panels,
    pub(super) columns: Vec<Column>,
    gate: Vec<Column>,
    pairs: Vec<Pair>,
    /// Of each row of the batch.
    pub(super) largest: Vec<Largest>,
}

/// Where a tile's results belong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Row of the batch that the first results are of; the others follow.
    pub(crate) row: usize,
    /// Output that the first number of each is.
    pub(crate) at: usize,
    /// Outputs that there are; the other numbers stand for none.
    pub(crate) width: usize,
}

/// What runs a loop.
pub(crate) struct Loop<'a> {
    pub(crate) isa: Isa,
    pub(crate) threads: &'a mut Threads,
    pub(crate) scratch: &'a mut [Scratch],
}

impl Loop<'_> {
    /// Splits `tiles` row tiles over the threads, in pairs, and calls `job(scratch, tiles, rows)` by blocks of tokens.
    pub(super) fn split(&mut self, tiles: usize, rows: usize, job: Job<'_>) {
        let pairs = tiles.div_ceil(2);
        let chunks = pairs.min(self.threads.count() * CHUNKS_A_THREAD);
        let scratch = Split::new(self.scratch);
        self.threads.run(chunks, &|worker, chunk| {
            // SAFETY: each worker has its own scratch and runs one chunk at a time.
            let scratch = unsafe { &mut scratch.part(worker, 1)[0] };
            let share = pairs * chunk / chunks..pairs * (chunk + 1) / chunks;
            let share = 2 * share.start..tiles.min(2 * share.end);
            for first in (0..rows).step_by(TOKEN_BLOCK) {
                job(scratch, share.clone(), first..rows.min(first + TOKEN_BLOCK));
            }
        });
    }

    /// Calls `put(place, results)` for every tile of the stack and every block of rows.
    pub(crate) fn multiply(&mut self, w: &Stack, x: Input<'_>, put: &(dyn Fn(Place, &[Column]) + Sync)) {
        let isa = self.isa;
        let rounded = rounded(w, x);
        let tiles = w.parts.iter().map(Part::tiles).sum();
        self.split(tiles, x.rows, &|scratch, share, rows| {
            let (mut tile_base, mut row_base) = (0, 0);
            let Scratch { panels, columns, .. } = scratch;
            for part in &w.parts {
                let x = part.input(x, &rounded);
                let from = share.start.clamp(tile_base, tile_base + part.tiles());
                let to = share.end.clamp(tile_base, tile_base + part.tiles());
                part.each_tile(
                    isa,
                    from - tile_base..to - tile_base,
                    (x, &rows),
                    (panels, columns),
                    |tile, columns| {
                        let width = ROWS.min(part.rows - tile * ROWS);
                        put(Place { row: rows.start, at: row_base + tile * ROWS, width }, columns);
                    },
                );
                tile_base += part.tiles();
                row_base += part.rows;
            }
        });
    }

    /// Calls `put(place, silu(gate) * up)` for every two tiles and every block of rows.
    pub(crate) fn gated(&mut self, w: &Stack, x: Input<'_>, limit: Option<f32>, put: &(dyn Fn(Place, &[Pair]) + Sync)) {
        let isa = self.isa;
        let [gate, up] = &w.parts[..] else { panic!("a gated linear has two matrices") };
        let rounded = rounded(w, x);
        let (for_gate, for_up) = (gate.input(x, &rounded), up.input(x, &rounded));
        self.split(gate.tiles(), x.rows, &|scratch, share, rows| {
            let Scratch { panels, columns, gate: gates, pairs, .. } = scratch;
            columns.resize(rows.len(), [0.0; ROWS]);
            gates.resize(rows.len(), [0.0; ROWS]);
            pairs.resize(rows.len(), [0.0; 2 * ROWS]);
            for tile in share.clone() {
                let both = [(gate, tile), (up, tile)];
                two(isa, both, [for_gate, for_up], &rows, panels, [&mut *gates, &mut *columns]);
                combine(isa, gates, columns, limit, tile % 2, pairs);
                if tile % 2 == 1 || tile + 1 == share.end {
                    let at = tile / 2 * 2 * ROWS;
                    put(Place { row: rows.start, at, width: (2 * ROWS).min(gate.rows - at) }, pairs);
                }
            }
        });
    }
}

/// Multiplies two tiles, of one part or of two that are as wide, with rows `range`, whose start is a multiple of a token tile.
fn two(
    isa: Isa,
    [(a, i), (b, j)]: [(&Part, usize); 2],
    [for_a, for_b]: [Input<'_>; 2],
    range: &Range<usize>,
    panels: &mut Panels,
    [to_a, to_b]: [&mut [Column]; 2],
) {
    match (&a.tiles, &b.tiles) {
        (Tiles::Nvfp4(v), Tiles::Nvfp4(w)) => {
            let cells = a.cells(for_a, range.clone());
            Nvfp4Tiles::multiply_two(isa, [(v, i), (w, j)], cells, &mut panels.integers, [to_a, to_b]);
        }
        (Tiles::Int8(v), Tiles::Int8(w)) if std::ptr::eq(v, w) => {
            v.multiply_two(isa, [i, j], a.cells(for_a, range.clone()), [to_a, to_b]);
        }
        _ => {
            a.tile((isa, i), for_a, range.clone(), panels, to_a);
            b.tile((isa, j), for_b, range.clone(), panels, to_b);
        }
    }
}

#[inline(always)]
fn combine_body(gates: &[Column], ups: &[Column], limit: Option<f32>, side: usize, out: &mut [Pair]) {
    let limit = limit.unwrap_or(f32::INFINITY);
    for ((gate, up), out) in gates.iter().zip(ups).zip(out) {
        let out = &mut out.as_chunks_mut::<ROWS>().0[side];
        for r in 0..ROWS {
            let g = if gate[r] > limit { limit } else { gate[r] };
            let u = if up[r] > limit { limit } else { up[r] };
            let u = if u < -limit { -limit } else { u };
            out[r] = silu(g) * u;
        }
    }
}

crate::cpu::isa::versions! {
    /// Fills one half of each pair.
    fn combine = combine_body(gates: &[Column], ups: &[Column], limit: Option<f32>, side: usize, out: &mut [Pair])
}

impl Part {
    /// The batch as this part reads it.
    fn input<'a>(&self, x: Input<'a>, rounded: &'a Rounded) -> Input<'a> {
        match self.rounds {
            Rounding::None => x,
            Rounding::Fp8 => Input { floats: &rounded.fp8, ..x },
            Rounding::Nvfp4 => Input { floats: &rounded.nvfp4, ..x },
        }
    }

    /// Multiplies tiles, in pairs, with some rows of `x`, as [`Self::tile`] does; each one's results go to `take(tile, results)`.
    pub(super) fn each_tile(
        &self,
        isa: Isa,
        tiles: Range<usize>,
        (x, range): (Input<'_>, &Range<usize>),
        (panels, columns): (&mut Panels, &mut Vec<Column>),
        mut take: impl FnMut(usize, &[Column]),
    ) {
        columns.resize(2 * range.len(), [0.0; ROWS]);
        let (first, second) = columns.split_at_mut(range.len());
        let mut tile = tiles.start;
        while tile + 1 < tiles.end {
            two(isa, [(self, tile), (self, tile + 1)], [x; 2], range, panels, [&mut *first, &mut *second]);
            take(tile, first);
            take(tile + 1, second);
            tile += 2;
        }
        if tile < tiles.end {
            self.tile((isa, tile), x, range.clone(), panels, first);
            take(tile, first);
        }
    }

    /// Multiplies one tile with rows `range`, whose start is a multiple of a token tile.
    fn tile(
        &self,
        (isa, tile): (Isa, usize),
        x: Input<'_>,
        range: Range<usize>,
        panels: &mut Panels,
        out: &mut [Column],
    ) {
        match &self.tiles {
            Tiles::Dense(w) => {
                let floats = &x.floats[range.start * self.cols..range.end * self.cols];
                w.multiply(isa, tile, floats, &mut panels.floats, out);
            }
            Tiles::Nvfp4(w) => w.multiply(isa, tile, self.cells(x, range), &mut panels.integers, out),
            Tiles::Int8(w) => w.multiply(isa, tile, self.cells(x, range), out),
        }
    }

    fn cells<'a>(&self, x: Input<'a>, range: Range<usize>) -> &'a [Cell] {
        let each = cells_of(self.cols);
        &x.cells[range.start * each..range.end * each]
    }
}
