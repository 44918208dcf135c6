//! What one push through the plugin host costs, by size of the push and number of live streams.
//!
//! `cargo run --release -p sluicegate-benches --bin plugin_push -- target/plugins/deepseek.wasm deepseek_v4`
//!
//! Prints CPU nanoseconds of the thread for one push: the median over rounds, and the least.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use sluicegate::plugins::{Pinned, Registry, Settings, StopCause, Stream, StreamConfig};

/// Rounds that are measured; one goes through every live stream.
const ROUNDS: usize = 15;
/// Pushes of one round, at least.
const PUSHES: usize = 8192;
/// A stream ends and another takes its place after this much text.
const MESSAGE: usize = 16 << 10;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().context("the first argument is a component")?;
    let format = arguments.next().context("the second argument is one of its formats")?;
    let registry = Registry::new(Settings::default())?;
    registry.load("bench", std::fs::read(&file).with_context(|| format!("cannot read {file}"))?)?;
    let pinned = registry.pin(&format)?;
    println!("{:>8} {:>6} {:>8} {:>8} {:>8}", "streams", "bytes", "median", "least", "stores");
    for streams in [1, 64, 4096] {
        for bytes in [4, 40, 400] {
            let (median, least, stores) = measure(&registry, &pinned, streams, bytes)?;
            println!("{streams:>8} {bytes:>6} {median:>8.0} {least:>8.0} {stores:>8}");
        }
    }
    Ok(())
}

fn measure(registry: &Registry, pinned: &Pinned, streams: usize, bytes: usize) -> Result<(f64, f64, usize)> {
    let open = || pinned.open(&StreamConfig::default(), None);
    let mut live = (0..streams).map(|_| open()).collect::<Result<Vec<Stream>, _>>()?;
    let mut sent = vec![0; streams];
    let text: String =
        "The quick brown fox jumps over the lazy dog, and then it rests. ".chars().cycle().take(bytes).collect();
    let turns = PUSHES.div_ceil(streams);
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let mut spent = Duration::ZERO;
        for _ in 0..turns {
            let begun = cpu_time();
            for stream in &mut live {
                std::hint::black_box(stream.push(&text, &[])?);
            }
            spent += cpu_time() - begun;
            for (stream, sent) in live.iter_mut().zip(&mut sent) {
                *sent += bytes;
                if *sent > MESSAGE {
                    *sent = 0;
                    std::mem::replace(stream, open()?).finish(&StopCause::Length)?;
                }
            }
        }
        // The first round warms caches.
        if round > 0 {
            rounds.push(spent.as_secs_f64() * 1e9 / (turns * streams) as f64);
        }
    }
    rounds.sort_by(f64::total_cmp);
    Ok((rounds[ROUNDS / 2], rounds[0], registry.status().stores))
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
