//! What one thread reads from memory, on huge pages as weights lie: the bound of a sequence that is alone.

use std::hint::black_box;

use anyhow::Result;
use memmap2::{Advice, MmapOptions};

use crate::clock::{cpu_time, median};

/// Times that the memory is read in each way.
const PASSES: usize = 9;
/// Words that are added up side by side, so that no addition waits for another.
const LANES: usize = 16;

/// What one thread reads.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    /// From end to end, in bytes per second of its CPU time.
    pub sequential: f64,
    /// The most of that and of reading at two, four and eight places by turns: a processor fetches ahead at each of them.
    pub most: f64,
}

/// Reads `len` bytes, which should be more than the caches hold: medians of some passes.
///
/// # Errors
/// The system refuses the memory.
pub fn of_bytes(len: usize) -> Result<Bandwidth> {
    let mut map = MmapOptions::new().len(len.max(1)).map_anon()?;
    // The caller's figure is of huge pages where the system has them.
    #[cfg(target_os = "linux")]
    drop(map.advise(Advice::HugePage));
    map.fill(1);
    let rate = |read: fn(&[u8]) -> u64| {
        let pass = || {
            let begun = cpu_time();
            black_box(read(&map));
            map.len() as f64 / (cpu_time() - begun).as_secs_f64()
        };
        median((0..PASSES).map(|_| pass()).collect())
    };
    let rates = [sum::<1>, sum::<2>, sum::<4>, sum::<8>].map(rate);
    Ok(Bandwidth { sequential: rates[0], most: rates.into_iter().fold(0.0, f64::max) })
}

/// Adds up all words, a line of each of `PLACES` parts by turns.
fn sum<const PLACES: usize>(bytes: &[u8]) -> u64 {
    let lines = bytes.as_chunks::<8>().0.as_chunks::<LANES>().0;
    let each = lines.len() / PLACES;
    let parts: [_; PLACES] = std::array::from_fn(|place| &lines[place * each..][..each]);
    let mut sums = [0u64; LANES];
    for line in 0..each {
        for part in parts {
            for (sum, word) in sums.iter_mut().zip(&part[line]) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*word));
            }
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}
