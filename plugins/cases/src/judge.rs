//! Holds what a client saw against a case, in every chunking.

use std::fmt::Debug;

use serde_json::Value;

use crate::case::{Accepted, Case, ExpectedCall, Match};
use crate::chunking::{halves, points, sized};

/// One call as a client assembles it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub name: String,
    /// All argument deltas joined.
    pub arguments: String,
    /// The call ended.
    pub finished: bool,
}

/// One message as a client assembles it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// All content deltas joined.
    pub content: String,
    /// All reasoning deltas joined.
    pub reasoning: String,
    /// In order.
    pub calls: Vec<Call>,
    /// `stop`, `length`, `tool_calls`; another word if it is none of them.
    pub finish: &'static str,
}

/// How a case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As expected: 0 is the case's own expectation, then its alternatives in order.
    Met(usize),
    /// The laws hold, but the result differs from every expectation; how from the case's own.
    Differs(String),
    /// The cut matters, or an unfinished call looks whole.
    Broken(String),
}

/// Streams the case's text whole, in its own deltas, code point by code point, in a few sizes and in two at up to `splits`
/// places. Every cut must give the same message, and the message must be one that the case accepts. `markers` of the format
/// must not show.
///
/// `stream` assembles one message from deltas, or says which law the stream broke.
pub fn judge<M: PartialEq + Debug>(
    case: &Case,
    markers: &[String],
    splits: usize,
    mut stream: impl FnMut(&[&str]) -> Result<M, String>,
    seen: impl Fn(&M) -> Seen,
) -> Verdict {
    let text = case.chunks.concat();
    let whole = match stream(&[&text]) {
        Ok(whole) => whole,
        Err(broken) => return Verdict::Broken(format!("{broken} (in one chunk)")),
    };
    let own: Vec<&str> = case.chunks.iter().map(String::as_str).collect();
    let cuts = [own, points(&text), sized(&text, 3), sized(&text, 17)].into_iter().chain(halves(&text, splits));
    for chunks in cuts {
        match stream(&chunks) {
            Ok(got) if got == whole => {}
            Ok(got) => return Verdict::Broken(format!("{} give {got:?}, one chunk gives {whole:?}", show(&chunks))),
            Err(broken) => return Verdict::Broken(format!("{broken} ({})", show(&chunks))),
        }
    }
    let got = seen(&whole);
    if let Some(call) = got.calls.iter().find(|call| !call.finished && call.looks_whole()) {
        return Verdict::Broken(format!("the unfinished call of {:?} looks whole: {:?}", call.name, call.arguments));
    }
    let verdicts: Vec<_> = case.accepted().iter().map(|accepted| compare(case, accepted, &got, markers)).collect();
    match verdicts.iter().position(Result::is_ok) {
        Some(n) => Verdict::Met(n),
        None => Verdict::Differs(verdicts.into_iter().find_map(Result::err).unwrap_or_default()),
    }
}

/// Whether `got` is a result that the case accepts.
///
/// # Errors
/// How it differs from the case's own expectation.
pub fn accepts(case: &Case, got: &Seen) -> Result<(), String> {
    let mut verdicts = case.accepted().into_iter().map(|accepted| compare(case, &accepted, got, &[]));
    match verdicts.next() {
        Some(Err(error)) if !verdicts.any(|verdict| verdict.is_ok()) => Err(error),
        _ => Ok(()),
    }
}

impl Call {
    /// Whether a client would take the arguments for complete.
    fn looks_whole(&self) -> bool {
        serde_json::from_str::<Value>(&self.arguments).is_ok_and(|value| value.is_object())
    }

    fn value(&self) -> ExpectedCall {
        let arguments = serde_json::from_str(&self.arguments).unwrap_or(Value::Null);
        ExpectedCall { name: self.name.clone(), arguments }
    }
}

fn compare(case: &Case, accepted: &Accepted, got: &Seen, markers: &[String]) -> Result<(), String> {
    let expect = &accepted.expect;
    texts("content", expect.content.as_deref(), &got.content, accepted.content_match)?;
    texts("reasoning", expect.reasoning.as_deref(), &got.reasoning, accepted.reasoning_match)?;
    hidden(accepted, got, markers)?;
    let finished: Vec<ExpectedCall> = got.calls.iter().filter(|call| call.finished).map(Call::value).collect();
    if finished != expect.tool_calls {
        return Err(format!("calls {}, expected {}", calls(&finished), calls(&expect.tool_calls)));
    }
    for call in got.calls.iter().filter(|call| !call.finished) {
        if case.partial_ok.as_ref().is_none_or(|partial| partial.name != call.name) {
            return Err(format!("an unfinished call of {:?} with {:?}", call.name, call.arguments));
        }
    }
    for part in &case.args_text_contains {
        if !got.calls.iter().any(|call| call.arguments.contains(part)) {
            return Err(format!("no arguments contain {part:?}: {:?}", got.calls));
        }
    }
    match expect.finish_reason.as_deref() {
        Some(want) if want != got.finish => Err(format!("finish_reason {:?}, expected {want:?}", got.finish)),
        _ => Ok(()),
    }
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
fn hidden(accepted: &Accepted, got: &Seen, markers: &[String]) -> Result<(), String> {
    let expect = &accepted.expect;
    let free = accepted.content_match == Match::Any;
    for marker in markers {
        let shown = |text: &str, want: &Option<String>| {
            text.contains(marker) && !want.as_deref().unwrap_or_default().contains(marker)
        };
        if shown(&got.reasoning, &expect.reasoning) || (!free && shown(&got.content, &expect.content)) {
            return Err(format!("the marker {marker:?} is shown: {got:?}"));
        }
    }
    Ok(())
}

fn calls(calls: &[ExpectedCall]) -> String {
    let calls: Vec<_> = calls.iter().map(|call| format!("{}({})", call.name, call.arguments)).collect();
    format!("[{}]", calls.join(", "))
}

fn show(chunks: &[&str]) -> String {
    match chunks {
        [a, b] => format!("two chunks, cut at byte {} between {:?} and {:?},", a.len(), tail(a), head(b)),
        _ => format!("{} chunks", chunks.len()),
    }
}

/// What stands around a cut, at most so many bytes of it.
const AROUND: usize = 20;

fn tail(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(AROUND))..]
}

fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(AROUND)]
}
