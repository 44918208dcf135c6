//! Recorded cases: what a model wrote and what a client must see.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use sluicegate_sdk::config::{ParserConfig, ReasoningMode, ToolChoice};
use sluicegate_sdk::event::{FinishReason, StopCause};
use sluicegate_sdk::format::Plugin;
use sluicegate_sdk::tools::ToolSet;

use crate::assemble::{Message, run};
use crate::{chunking, tools};

/// Most two-way splits tried for one case; longer texts are sampled evenly.
const MAX_SPLITS: usize = 1500;

/// How two texts are compared.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// Equal.
    #[default]
    Exact,
    /// Equal but for white space at both ends.
    Trim,
    /// Begins with the expected text.
    Prefix,
    /// Anything.
    Any,
}

/// A call that is expected.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct ExpectedCall {
    /// The function.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

/// What is expected. Fields that are absent in an alternative are taken from the main expectation.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Expect {
    /// `null` and "" are the same.
    pub content: Option<String>,
    /// `null` and "" are the same.
    pub reasoning: Option<String>,
    /// In order.
    pub tool_calls: Option<Vec<ExpectedCall>>,
    /// `stop`, `length`, `tool_calls`.
    pub finish_reason: Option<String>,
    /// Overrides the case's.
    pub content_match: Option<Match>,
}

/// One case of `plugins/cases/parser_cases.json` or of a golden file.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Unique.
    pub id: String,
    /// Format name; `reasoning:NAME` names a format for its reasoning.
    pub format: String,
    /// OpenAI tool declarations.
    #[serde(default)]
    pub tools: Value,
    /// The prompt already opened the reasoning block.
    #[serde(default)]
    pub thinking: bool,
    /// Deltas in order.
    pub chunks: Vec<String>,
    /// `stop` or `length`.
    #[serde(default)]
    pub finish: String,
    /// See [`Expect`].
    pub expect: Expect,
    /// See [`Match`].
    #[serde(default)]
    pub content_match: Match,
    /// See [`Match`].
    #[serde(default)]
    pub reasoning_match: Match,
    /// Texts that the arguments must contain.
    #[serde(default)]
    pub args_text_contains: Vec<String>,
    /// When it is not `auto`.
    #[serde(default)]
    pub tool_choice: Option<String>,
    /// A truncated call may also appear.
    #[serde(default)]
    pub partial_ok: Option<Value>,
    /// Other results that a policy may give.
    #[serde(default)]
    pub accept_also: Vec<Expect>,
    /// The truth is arguable.
    #[serde(default)]
    pub debatable: bool,
}

/// The cases in `json`.
pub fn load(json: &str) -> Result<Vec<Case>, serde_json::Error> {
    serde_json::from_str(json)
}

impl Case {
    /// The format that parses it.
    pub fn format_name(&self) -> &str {
        self.format.strip_prefix("reasoning:").unwrap_or(&self.format)
    }

    /// The parser's configuration.
    pub fn config(&self) -> ParserConfig {
        ParserConfig {
            format: self.format_name().to_owned(),
            tool_choice: match self.tool_choice.as_deref() {
                Some("none") => ToolChoice::None,
                Some("required") => ToolChoice::Required,
                _ => ToolChoice::Auto,
            },
            parallel_tools: true,
            reasoning: if self.thinking { ReasoningMode::On } else { ReasoningMode::Off },
            ..ParserConfig::default()
        }
    }

    /// The expectation and its alternatives, made complete.
    fn expectations(&self) -> Vec<Expect> {
        let main = &self.expect;
        let fill = |other: &Expect| Expect {
            content: other.content.clone().or_else(|| main.content.clone().filter(|_| other.reasoning.is_none())),
            reasoning: other.reasoning.clone().or_else(|| main.reasoning.clone()),
            tool_calls: other.tool_calls.clone().or_else(|| main.tool_calls.clone()),
            finish_reason: other.finish_reason.clone().or_else(|| main.finish_reason.clone()),
            content_match: other.content_match,
        };
        std::iter::once(main.clone()).chain(self.accept_also.iter().map(fill)).collect()
    }
}

/// Checks a case in every chunking; `Err` says what is wrong.
pub fn check(plugin: &Plugin, case: &Case) -> Result<(), String> {
    matched(plugin, case).map(drop)
}

/// Like [`check`], and says which expectation the result meets: 0 is the case's own, then its alternatives in order.
pub fn matched(plugin: &Plugin, case: &Case) -> Result<usize, String> {
    let text: String = case.chunks.concat();
    let set: Arc<ToolSet> = Arc::new(tools::digest(&case.tools));
    let config = case.config();
    let cause = if case.finish == "length" { StopCause::Length } else { StopCause::Eos(None) };
    let parse = |chunks: &[&str]| run(plugin, &config, &set, chunks, &cause);
    let reference = parse(&chunking::whole(&text))?;
    let verdicts: Vec<Result<(), String>> =
        case.expectations().iter().map(|expect| mismatch(case, expect, &reference)).collect();
    let Some(met) = verdicts.iter().position(Result::is_ok) else {
        return Err(verdicts.into_iter().find_map(Result::err).unwrap_or_default());
    };
    let given: Vec<&str> = case.chunks.iter().map(String::as_str).collect();
    let fixed = [given, chunking::points(&text), chunking::sized(&text, 3), chunking::sized(&text, 17)];
    for chunks in fixed.into_iter().chain(chunking::halves(&text, MAX_SPLITS)) {
        let got = parse(&chunks).map_err(|e| format!("{e} in chunks {}", show(&chunks)))?;
        if got != reference {
            return Err(format!("chunks {} give\n  {got:?}\nwhole gives\n  {reference:?}", show(&chunks)));
        }
    }
    Ok(met)
}

fn show(chunks: &[&str]) -> String {
    match chunks {
        [a, b] => {
            format!("{:?} | {:?}", &a[a.len().saturating_sub(20)..].trim(), b.chars().take(20).collect::<String>())
        }
        _ => format!("({} of them)", chunks.len()),
    }
}

/// Compares a result with one expectation.
fn mismatch(case: &Case, expect: &Expect, got: &Message) -> Result<(), String> {
    let content = expect.content_match.unwrap_or(case.content_match);
    compare("content", expect.content.as_deref(), &got.content, content)?;
    compare("reasoning", expect.reasoning.as_deref(), &got.reasoning, case.reasoning_match)?;
    let calls: Vec<ExpectedCall> = got
        .ended()
        .map(|c| ExpectedCall {
            name: c.name.clone(),
            arguments: serde_json::from_str(&c.arguments).unwrap_or(Value::Null),
        })
        .collect();
    let expected = expect.tool_calls.clone().unwrap_or_default();
    if calls != expected {
        return Err(format!("calls {calls:?}, expected {expected:?}; whole result {got:?}"));
    }
    if got.calls.len() > expected.len() && case.partial_ok.is_none() {
        return Err(format!("a call that never ended: {:?}", got.calls));
    }
    for part in &case.args_text_contains {
        if !got.calls.iter().any(|c| c.arguments.contains(part)) {
            return Err(format!("no arguments contain {part:?}"));
        }
    }
    let finish = match &got.finish {
        Some(FinishReason::Stop) => "stop",
        Some(FinishReason::Length) => "length",
        Some(FinishReason::ToolCalls) => "tool_calls",
        _ => "",
    };
    match expect.finish_reason.as_deref() {
        Some(want) if want != finish => Err(format!("finish {finish}, expected {want}")),
        _ => Ok(()),
    }
}

fn compare(what: &str, want: Option<&str>, got: &str, how: Match) -> Result<(), String> {
    let want = want.unwrap_or_default();
    let equal = match how {
        Match::Exact => want == got,
        Match::Trim => want.trim() == got.trim(),
        Match::Prefix => got.starts_with(want),
        Match::Any => true,
    };
    if equal { Ok(()) } else { Err(format!("{what} {got:?}, expected {want:?}")) }
}

/// Checks all cases of `json` whose format the plugin has; panics with a list of what failed. Returns how many ran.
/// Debatable cases are checked like the others unless `skip` names them with the reason.
pub fn assert_cases(plugin: &Plugin, json: &str, skip: &[(&str, &str)]) -> usize {
    let cases = load(json).expect("a readable case file");
    let names: Vec<String> = plugin.describe().into_iter().map(|d| d.name).collect();
    let mine: Vec<&Case> = cases.iter().filter(|c| names.iter().any(|n| n == c.format_name())).collect();
    let run = mine.iter().filter(|c| !skip.iter().any(|(id, _)| *id == c.id));
    let failed: Vec<String> =
        run.clone().filter_map(|c| check(plugin, c).err().map(|e| format!("{} ({}): {e}", c.id, c.format))).collect();
    assert!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), mine.len(), failed.join("\n"));
    run.count()
}

/// Checks every `*.json` of a crate's `golden` folder that holds cases; returns how many ran.
pub fn assert_golden(plugin: &Plugin, folder: &str) -> usize {
    let mut ran = 0;
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
    let mut paths: Vec<_> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if load(&text).is_ok() {
            let cases = assert_cases(plugin, &text, &[]);
            assert!(cases > 0, "{}: no format of this plugin", path.display());
            ran += cases;
        }
    }
    assert!(ran > 0, "{folder} holds no cases");
    ran
}
