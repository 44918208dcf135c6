//! The loops over row tiles and tokens, shared between threads.

use std::ops::Range;

use super::nvfp4::PanelBlock;
use super::{Column, Part, ROWS, Stack, Tiles};
use crate::cpu::cells::{Cell, TILE};
use crate::cpu::isa::Isa;
use crate::cpu::math::silu;
use crate::cpu::shared::Split;
use crate::cpu::threads::Threads;
use crate::rows::{ACTIVATION_GROUP, fp8_groups};

/// Rows whose activations stay in a core's cache while it works through its tiles; whole token tiles.
const TOKEN_BLOCK: usize = 10 * TILE;
/// Chunks that each thread should get, so that a thread whose core is busy can leave some to others.
const CHUNKS_A_THREAD: usize = 4;

/// A batch in the forms that linears read; a form nobody reads is empty.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) rows: usize,
    pub(crate) floats: &'a [f32],
    pub(crate) cells: &'a [Cell],
}

/// The float form of a batch after [`fp8_groups`], for the parts that want it so; empty if none does.
fn rounded(w: &Stack, x: Input<'_>) -> Vec<f32> {
    if !w.parts.iter().any(|p| p.rounds) {
        return Vec::new();
    }
    let mut values = x.floats[..x.rows * w.cols].to_vec();
    values.chunks_exact_mut(w.cols).for_each(|row| fp8_groups(row, ACTIVATION_GROUP));
    values
}

/// Work on some row tiles for some rows of the batch.
type Job<'a> = &'a (dyn Fn(&mut Scratch, Range<usize>, Range<usize>) + Sync);

/// A tile's weights, decoded.
#[derive(Debug, Default)]
pub(crate) struct Panels {
    floats: Vec<Column>,
    integers: Vec<PanelBlock>,
}

/// One thread's scratch.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    panels: Panels,
    gate: Vec<Column>,
}

/// What runs a loop.
pub(crate) struct Loop<'a> {
    pub(crate) isa: Isa,
    pub(crate) threads: &'a mut Threads,
    pub(crate) scratch: &'a mut [Scratch],
}

impl Loop<'_> {
    /// Splits `tiles` row tiles over the threads and calls `job(scratch, tiles, rows)` by blocks of tokens.
    fn split(&mut self, tiles: usize, rows: usize, job: Job<'_>) {
        let chunks = tiles.min(self.threads.count() * CHUNKS_A_THREAD);
        let scratch = Split::new(self.scratch);
        self.threads.run(chunks, &|worker, chunk| {
            // SAFETY: each worker has its own scratch and runs one chunk at a time.
            let scratch = unsafe { &mut scratch.part(worker, 1)[0] };
            let share = tiles * chunk / chunks..tiles * (chunk + 1) / chunks;
            for first in (0..rows).step_by(TOKEN_BLOCK) {
                job(scratch, share.clone(), first..rows.min(first + TOKEN_BLOCK));
            }
        });
    }

    /// Calls `put(row, first output, results)` for every row and every tile of the stack.
    pub(crate) fn multiply(&mut self, w: &Stack, x: Input<'_>, put: &(dyn Fn(usize, usize, &[f32]) + Sync)) {
        let isa = self.isa;
        let rounded = rounded(w, x);
        let tiles = w.parts.iter().map(Part::tiles).sum();
        self.split(tiles, x.rows, &|scratch, share, rows| {
            let (mut tile_base, mut row_base) = (0, 0);
            for part in &w.parts {
                let x = part.input(x, &rounded);
                let from = share.start.clamp(tile_base, tile_base + part.tiles());
                let to = share.end.clamp(tile_base, tile_base + part.tiles());
                for tile in from - tile_base..to - tile_base {
                    let width = ROWS.min(part.rows - tile * ROWS);
                    let at = row_base + tile * ROWS;
                    part.tile((isa, tile), x, rows.clone(), &mut scratch.panels, &mut |row, column| {
                        put(row, at, &column[..width]);
                    });
                }
                tile_base += part.tiles();
                row_base += part.rows;
            }
        });
    }

    /// Calls `put(row, tile, silu(gate) * up)`; a tile's missing rows are 0.
    pub(crate) fn gated(
        &mut self,
        w: &Stack,
        x: Input<'_>,
        limit: Option<f32>,
        put: &(dyn Fn(usize, usize, &Column) + Sync),
    ) {
        let isa = self.isa;
        let [gate, up] = &w.parts[..] else { panic!("a gated linear has two matrices") };
        let rounded = rounded(w, x);
        let (for_gate, for_up) = (gate.input(x, &rounded), up.input(x, &rounded));
        self.split(gate.tiles(), x.rows, &|scratch, share, rows| {
            for tile in share {
                scratch.gate.clear();
                let Scratch { panels, gate: gates } = &mut *scratch;
                gate.tile((isa, tile), for_gate, rows.clone(), panels, &mut |_, column| gates.push(*column));
                up.tile((isa, tile), for_up, rows.clone(), panels, &mut |row, up| {
                    put(row, tile, &combine(isa, &gates[row - rows.start], up, limit));
                });
            }
        });
    }
}

#[inline(always)]
fn combine_body(gate: &Column, up: &Column, limit: Option<f32>) -> Column {
    let limit = limit.unwrap_or(f32::INFINITY);
    let mut out = [0f32; ROWS];
    for r in 0..ROWS {
        let g = if gate[r] > limit { limit } else { gate[r] };
        let u = if up[r] > limit { limit } else { up[r] };
        let u = if u < -limit { -limit } else { u };
        out[r] = silu(g) * u;
    }
    out
}

crate::cpu::isa::versions! {
    fn combine = combine_body(gate: &Column, up: &Column, limit: Option<f32>) -> Column
}

impl Part {
    /// The batch as this part reads it.
    fn input<'a>(&self, x: Input<'a>, rounded: &'a [f32]) -> Input<'a> {
        if self.rounds { Input { floats: rounded, ..x } } else { x }
    }

    /// Multiplies one tile with rows `range`, whose start is a multiple of a token tile, and hands out each row's results.
    fn tile(
        &self,
        (isa, tile): (Isa, usize),
        x: Input<'_>,
        range: Range<usize>,
        panels: &mut Panels,
        put: &mut dyn FnMut(usize, &Column),
    ) {
        let blocks = self.cols / crate::cpu::cells::CELL;
        let mut columns = [[0f32; ROWS]; TILE];
        match &self.tiles {
            Tiles::Dense(w) => {
                let floats = &x.floats[range.start * self.cols..range.end * self.cols];
                w.multiply(isa, tile, floats, &mut panels.floats, &mut |row, column| put(range.start + row, column));
            }
            integer => {
                // With several token tiles it pays to decode the weights once.
                let unpacked = matches!(integer, Tiles::Nvfp4(w) if range.len() > TILE && w.unpack(isa, tile, &mut panels.integers));
                for first in range.clone().step_by(TILE) {
                    let n = TILE.min(x.rows - first);
                    let cells = &x.cells[first * blocks..][..n * blocks];
                    match integer {
                        Tiles::Nvfp4(w) if unpacked => {
                            w.multiply_unpacked(isa, &panels.integers, cells, &mut columns[..n])
                        }
                        Tiles::Nvfp4(w) => w.multiply(isa, tile, cells, &mut columns[..n]),
                        Tiles::Int8(w) => w.multiply(isa, tile, cells, &mut columns[..n]),
                        Tiles::Dense(_) => {}
                    }
                    for (t, column) in columns[..n].iter().enumerate() {
                        put(first + t, column);
                    }
                }
            }
        }
    }
}
