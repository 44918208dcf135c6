//! Holds one case against a plugin: the expectation, and the laws that every case must obey.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use super::case::{Accepted, Case, ExpectedCall, Match};
use super::chunking::{halves, points};
use super::message::{Message, Run};
use crate::plugins::Pinned;

/// How a case went.
pub(super) enum Verdict {
    /// As expected, under every chunking.
    Passed,
    /// Not as expected, or a law is broken.
    Failed(String),
    /// The laws hold; the truth of the expectation is arguable, and this is how the result differs from it.
    Debatable(Option<String>),
}

pub(super) fn judge(pinned: &Pinned, case: &Case) -> Verdict {
    let run = Run::new(pinned, case);
    let whole = match laws(&run) {
        Ok(whole) => whole,
        Err(broken) => return Verdict::Failed(broken),
    };
    let mut difference = None;
    for accepted in case.accepted() {
        match compare(&run, &accepted, &whole) {
            Ok(()) if case.debatable => return Verdict::Debatable(None),
            Ok(()) => return Verdict::Passed,
            // The first is the main expectation's.
            Err(differs) => drop(difference.get_or_insert(differs)),
        }
    }
    if case.debatable { Verdict::Debatable(difference) } else { Verdict::Failed(difference.unwrap_or_default()) }
}

/// Any chunking gives what the whole text gives, and work is linear.
fn laws(run: &Run<'_>) -> Result<Message, String> {
    let text = run.case.chunks.concat();
    let whole = run.stream(&[&text]).map_err(|broken| format!("{broken} (in one chunk)"))?;
    let same = |how: &str, chunks: &[&str]| {
        let got = run.stream(chunks).map_err(|broken| format!("{broken} ({how})"))?;
        if got == whole { Ok(()) } else { Err(format!("{how} give {got:?}, one chunk gives {whole:?}")) }
    };
    let given: Vec<&str> = run.case.chunks.iter().map(String::as_str).collect();
    same("the given chunks", &given)?;
    same("single code points", &points(&text))?;
    for (at, chunks) in halves(&text) {
        same(&format!("two chunks, cut at byte {at},"), &chunks)?;
    }
    if let Some(call) = whole.calls.iter().find(|call| !call.finished && call.looks_whole()) {
        return Err(format!("the unfinished call of {:?} looks whole: {:?}", call.name, call.arguments));
    }
    if text.len() >= LONG {
        is_linear(run, &points(&text))?;
    }
    Ok(whole)
}

/// Texts of this many bytes are timed.
const LONG: usize = 4096;

/// Twice the text may take about twice the time; four times would be quadratic.
fn is_linear(run: &Run<'_>, points: &[&str]) -> Result<(), String> {
    let time = |points: &[&str]| {
        let least = (0..5).map(|_| {
            let begun = cpu_time();
            let _ = black_box(run.stream(points));
            cpu_time() - begun
        });
        least.min().unwrap_or_default()
    };
    let (half, full) = (time(&points[..points.len() / 2]), time(points));
    if full > half.mul_f64(3.5) + Duration::from_millis(1) {
        return Err(format!("work is not linear: {half:?} for half the text, {full:?} for all of it"));
    }
    Ok(())
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn compare(run: &Run<'_>, accepted: &Accepted, got: &Message) -> Result<(), String> {
    let expect = &accepted.expect;
    texts("content", expect.content.as_deref(), &got.content, accepted.content_match)?;
    texts("reasoning", expect.reasoning.as_deref(), &got.reasoning, accepted.reasoning_match)?;
    markers(run, accepted, got)?;
    let finished: Vec<ExpectedCall> = got.calls.iter().filter(|call| call.finished).map(value).collect();
    if finished != expect.tool_calls {
        return Err(format!("calls {}, expected {}", show(&finished), show(&expect.tool_calls)));
    }
    for call in got.calls.iter().filter(|call| !call.finished) {
        if run.case.partial_ok.as_ref().is_none_or(|partial| partial.name != call.name) {
            return Err(format!("an unfinished call of {:?} with {:?}", call.name, call.arguments));
        }
    }
    for part in &run.case.args_text_contains {
        if !got.calls.iter().any(|call| call.arguments.contains(part)) {
            return Err(format!("no arguments contain {part:?}: {:?}", got.calls));
        }
    }
    if got.finish != expect.finish_reason {
        return Err(format!("finish_reason {:?}, expected {:?}", got.finish, expect.finish_reason));
    }
    Ok(())
}

fn texts(what: &str, want: Option<&str>, got: &str, how: Match) -> Result<(), String> {
    let want = want.unwrap_or_default();
    let equal = match how {
        Match::Exact => want == got,
        Match::Trim => want.trim() == got.trim(),
        Match::Prefix => got.starts_with(want),
        Match::Any => true,
    };
    if equal { Ok(()) } else { Err(format!("{what} {got:?}, expected {want:?}")) }
}

/// No marker of the format reaches the client, unless the expectation says that it is data.
fn markers(run: &Run<'_>, accepted: &Accepted, got: &Message) -> Result<(), String> {
    let expect = &accepted.expect;
    let free = accepted.content_match == Match::Any;
    for marker in &run.pinned.descriptor().markers {
        let shown = |text: &str, want: &Option<String>| {
            text.contains(marker) && !want.as_deref().unwrap_or_default().contains(marker)
        };
        if shown(&got.reasoning, &expect.reasoning) || (!free && shown(&got.content, &expect.content)) {
            return Err(format!("the marker {marker:?} is shown: {got:?}"));
        }
    }
    Ok(())
}

fn value(call: &super::message::Call) -> ExpectedCall {
    let arguments = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
    ExpectedCall { name: call.name.clone(), arguments }
}

fn show(calls: &[ExpectedCall]) -> String {
    let calls: Vec<_> = calls.iter().map(|call| format!("{}({})", call.name, call.arguments)).collect();
    format!("[{}]", calls.join(", "))
}
