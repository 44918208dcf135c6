//! Parsing speed of each parser on the same messages in the same run, in CPU time of this process.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::peers::{Peer, Request, all};
use crate::wires::{CODE, FORMATS, LINE, TOOLS, cut, message};

/// Bytes of a delta.
const DELTAS: [usize; 3] = [4, 40, 400];
/// Bytes of one argument whose cost per byte is compared.
const ARGUMENTS: [usize; 3] = [1 << 10, 64 << 10, 1 << 20];
/// A longer run is not repeated, and a larger argument is not tried.
const PATIENCE: f64 = 3.0;

/// Prints Markdown tables.
pub(crate) fn report() -> Result<()> {
    let tools: Value = serde_json::from_str(TOOLS)?;
    let mut peers = all()?;
    println!("Microseconds a delta; the arguments mean themselves.\n");
    table(&mut peers, &tools, LINE)?;
    println!("\nThe arguments are source code.\n");
    table(&mut peers, &tools, CODE)?;
    println!("\n| format | parser | 1 KB | 64 KB | 1 MB |\n| --- | --- | --- | --- | --- |");
    for format in FORMATS {
        for peer in peers.iter_mut().filter(|peer| peer.supports(format)) {
            let request = Request { format, tools: &tools, thinking: false, tool_choice: None, finish: "stop" };
            let (mut cells, mut last) = (String::new(), 0.0);
            for bytes in ARGUMENTS {
                if last > PATIENCE / 60.0 && bytes > ARGUMENTS[1] {
                    cells += " not tried |";
                    continue;
                }
                let text = message(format, 0, LINE, &[bytes]);
                last = median(peer.as_mut(), &request, &cut(&text, 40))?;
                cells += &format!(" {:.1} |", last * 1e9 / text.len() as f64);
            }
            println!("| {format} | {} |{cells}", peer.name());
        }
    }
    Ok(())
}

/// What a delta costs, by its size, in a message whose arguments are `phrase` again and again.
fn table(peers: &mut [Box<dyn Peer>], tools: &Value, phrase: &str) -> Result<()> {
    println!("| format | parser | 4 B | 40 B | 400 B |\n| --- | --- | --- | --- | --- |");
    for format in FORMATS {
        for peer in peers.iter_mut().filter(|peer| peer.supports(format)) {
            let request = Request { format, tools, thinking: false, tool_choice: None, finish: "stop" };
            let bodies = [3500, 3500];
            let text = message(format, 700, phrase, &bodies);
            let mut cells = String::new();
            for bytes in DELTAS {
                let chunks = cut(&text, bytes);
                let spent = median(peer.as_mut(), &request, &chunks)?;
                let mark = if is_right(peer.as_mut(), &request, &chunks, &bodies) { "" } else { " (wrong result)" };
                cells += &format!(" {:.2}{mark} |", spent * 1e6 / chunks.len() as f64);
            }
            println!("| {format} | {} |{cells}", peer.name());
        }
    }
    Ok(())
}

/// Seconds of one message: the median of as many runs as fit into a moment.
fn median(peer: &mut dyn Peer, request: &Request<'_>, chunks: &[&str]) -> Result<f64> {
    let mut time = || -> Result<f64> {
        let begun = cpu_time();
        black_box(peer.stream(request, chunks)?);
        Ok((cpu_time() - begun).as_secs_f64())
    };
    let first = time()?;
    if first > PATIENCE {
        return Ok(first);
    }
    let runs = ((0.3 / first.max(1e-6)) as usize).clamp(3, 61);
    let mut times = (0..runs).map(|_| time()).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// A time for text that was not parsed means nothing.
fn is_right(peer: &mut dyn Peer, request: &Request<'_>, chunks: &[&str], bodies: &[usize]) -> bool {
    peer.stream(request, chunks).is_ok_and(|message| {
        message.calls.len() == bodies.len()
            && message.calls.iter().zip(bodies).all(|(call, size)| {
                let arguments = serde_json::from_str::<Value>(&call.arguments).unwrap_or_default();
                arguments["body"].as_str().is_some_and(|body| body.len() == *size)
            })
    })
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
