//! What a format costs: native and as a component, by size of the delta, number of live streams and size of an argument; then
//! size and load time of every component.
//!
//! ```sh
//! cargo xtask plugins
//! cargo build --release --workspace --bin formats && target/release/formats [FORMAT...]
//! ```
//! CPU time of the thread, medians; the peers are timed by `benches/peers`.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;
use serde_json::value::RawValue;
use sluicegate::chat::Tool;
use sluicegate::plugins::{Pinned, Registry, Settings, StopCause, Stream, StreamConfig, ToolSet};
use sluicegate_benches::clock::{cpu_time, median};
use sluicegate_benches::wires::{CODE, FORMATS, LINE, TOOLS, cut, message};
use sluicegate_catalogue::{plugin_of, plugins};
use sluicegate_laws::tools::digest;
use sluicegate_sdk::config::ParserConfig;
use sluicegate_sdk::event::StopCause as NativeCause;
use sluicegate_sdk::format::Plugin;

/// Bytes of a delta.
const DELTAS: [usize; 3] = [4, 40, 400];
/// Streams that live at once in the crowded measurement.
const CROWD: usize = 4096;
/// Pushes that each of them is measured for, in rounds.
const ROUNDS: usize = 15;
/// Crowds that are measured, one after the other.
const CROWDS: usize = 2;
/// Bytes of one argument whose cost per byte is compared.
const ARGUMENTS: [usize; 3] = [1 << 10, 64 << 10, 1 << 20];
/// Bytes of the arguments in the message that is streamed.
const BODIES: [usize; 2] = [3500, 3500];

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/plugins");
    let cache = folder.join("../compiled-plugins");
    let settings = Settings { cache_dir: Some(cache.clone()), ..Settings::default() };
    let registry = Registry::open(&folder, settings).context("no components: run `cargo xtask plugins`")?;
    let native = plugins();
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let formats: Vec<&str> =
        FORMATS.into_iter().filter(|format| asked.is_empty() || asked.iter().any(|a| a == format)).collect();
    println!(
        "Microseconds a delta; with {CROWD} streams live the median of all rounds and the least, deltas/s from the median.\n"
    );
    table(&registry, &native, &formats, LINE)?;
    println!("\nThe same, where the argument is source code: lines, indented, with quotes.\n");
    table(&registry, &native, &formats, CODE)?;
    println!("\nNanoseconds a byte of one argument, in deltas of 40 bytes, through the component.\n");
    println!("| format | 1 KB | 64 KB | 1 MB |\n| --- | --- | --- | --- |");
    for format in &formats {
        let pinned = registry.pin(format)?;
        let mut cells = String::new();
        for bytes in ARGUMENTS {
            let text = message(format, 0, LINE, &[bytes]);
            let chunks = cut(&text, 40);
            let micros = per_delta(|| component(&pinned, &chunks), chunks.len())?;
            cells += &format!(" {:.1} |", micros * 1e3 * chunks.len() as f64 / text.len() as f64);
        }
        println!("| {format} |{cells}");
    }
    loads(&folder, &cache)
}

/// What a delta costs, by its size, in a message whose arguments are `phrase` again and again.
fn table(registry: &Registry, native: &[Plugin], formats: &[&str], phrase: &str) -> Result<()> {
    println!(
        "| format | delta | native | component | {CROWD} live | least round | deltas/s a core |\n\
         | --- | --- | --- | --- | --- | --- | --- |"
    );
    for format in formats {
        let pinned = registry.pin(format)?;
        let plugin = plugin_of(native, format).context("no native build")?;
        let text = message(format, 700, phrase, &BODIES);
        for bytes in DELTAS {
            let chunks = cut(&text, bytes);
            let alone = per_delta(|| component(&pinned, &chunks), chunks.len())?;
            let own = per_delta(|| in_process(plugin, format, &chunks), chunks.len())?;
            let mut rounds = Vec::new();
            for _ in 0..CROWDS {
                rounds.extend(crowded(&pinned, &chunks)?);
            }
            let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
            let crowd = median(rounds);
            let rate = 1.0 / crowd;
            println!("| {format} | {bytes} B | {own:.3} | {alone:.3} | {crowd:.3} | {least:.3} | {rate:.1} M |");
        }
    }
    Ok(())
}

/// The tools as the gateway gives them.
fn tools() -> Result<Arc<ToolSet>> {
    let list: Vec<Value> = serde_json::from_str(TOOLS)?;
    let tool = |tool: &Value| {
        let function = &tool["function"];
        Ok(Tool {
            name: function["name"].as_str().unwrap_or_default().to_owned(),
            description: None,
            parameters: Some(RawValue::from_string(function["parameters"].to_string())?),
            strict: false,
        })
    };
    Ok(ToolSet::new(&list.iter().map(tool).collect::<Result<Vec<_>>>()?))
}

/// One message through the native build; CPU seconds.
fn in_process(plugin: &Plugin, format: &str, chunks: &[&str]) -> Result<f64> {
    let tools = Arc::new(digest(&serde_json::from_str(TOOLS)?));
    let config = ParserConfig { format: format.to_owned(), parallel_tools: true, ..ParserConfig::default() };
    let mut parser = plugin.parser(&config, Some(tools));
    let begun = cpu_time();
    for chunk in chunks {
        black_box(parser.push(chunk));
    }
    black_box(parser.finish(&NativeCause::Eos(None)));
    Ok((cpu_time() - begun).as_secs_f64())
}

/// One message through the component, alone in its store; CPU seconds.
fn component(pinned: &Pinned, chunks: &[&str]) -> Result<f64> {
    let mut stream = pinned.open(&StreamConfig::default(), Some(tools()?))?;
    let begun = cpu_time();
    for chunk in chunks {
        black_box(stream.push(chunk, &[])?);
    }
    black_box(stream.finish(&StopCause::Eos(None))?);
    Ok((cpu_time() - begun).as_secs_f64())
}

/// Microseconds a delta: the median of as many messages as fit into a moment.
fn per_delta(mut once: impl FnMut() -> Result<f64>, deltas: usize) -> Result<f64> {
    let first = once()?;
    let runs = ((0.2 / first.max(1e-6)) as usize).clamp(3, 41);
    let times = (0..runs).map(|_| once()).collect::<Result<Vec<_>>>()?;
    Ok(median(times) * 1e6 / deltas as f64)
}

/// Microseconds a delta in each round while many streams live, each at another place of its message, pushed in turn.
fn crowded(pinned: &Pinned, chunks: &[&str]) -> Result<Vec<f64>> {
    let tools = tools()?;
    let mut streams: Vec<(Stream, usize)> = Vec::with_capacity(CROWD);
    for n in 0..CROWD {
        let mut stream = pinned.open(&StreamConfig::default(), Some(Arc::clone(&tools)))?;
        let at = n * chunks.len() / CROWD;
        stream.push(&chunks[..at].concat(), &[])?;
        streams.push((stream, at));
    }
    let mut rounds = Vec::new();
    // The first round warms caches.
    for round in 0..=ROUNDS {
        let begun = cpu_time();
        let mut pushed = 0usize;
        for (stream, at) in &mut streams {
            if let Some(chunk) = chunks.get(*at) {
                black_box(stream.push(chunk, &[])?);
                (*at, pushed) = (*at + 1, pushed + 1);
            }
        }
        if round > 0 && pushed > CROWD / 4 {
            rounds.push((cpu_time() - begun).as_secs_f64() * 1e6 / pushed as f64);
        }
    }
    Ok(rounds)
}

/// Size of each component and how long it takes into service, compiled before.
fn loads(folder: &Path, cache: &Path) -> Result<()> {
    let mut files: Vec<PathBuf> = folder.read_dir()?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    files.sort();
    println!("\n| component | KB | formats | load, ms |\n| --- | --- | --- | --- |");
    let registry = Registry::new(Settings { cache_dir: Some(cache.to_owned()), ..Settings::default() })?;
    let mut bytes = 0;
    for file in &files {
        let wasm = std::fs::read(file)?;
        bytes += wasm.len();
        let (name, size) = (file.file_stem().unwrap_or_default().to_string_lossy().into_owned(), wasm.len() / 1024);
        let begun = Instant::now();
        let report = registry.load(&name, wasm)?;
        println!("| {name} | {size} | {} | {:.1} |", report.formats.len(), begun.elapsed().as_secs_f64() * 1e3);
    }
    let begun = Instant::now();
    Registry::open(folder, Settings { cache_dir: Some(cache.to_owned()), ..Settings::default() })?;
    let together = begun.elapsed().as_secs_f64() * 1e3;
    println!("| all, together | {} | | {together:.0} |", bytes / 1024);
    Ok(())
}
