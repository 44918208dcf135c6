//! Recorded cases through the native build of a format: see [`sluicegate_cases`] for what a case is and how it is judged.

use std::sync::Arc;

use sluicegate_cases::{Call, Seen, Verdict, judge};
use sluicegate_sdk::config::{ParserConfig, ReasoningMode, ToolChoice};
use sluicegate_sdk::event::{FinishReason, StopCause};
use sluicegate_sdk::format::Plugin;
use sluicegate_sdk::tools::ToolSet;

use crate::assemble::{Message, run};
use crate::tools;

pub use sluicegate_cases::{Case, ExpectedCall, load};

/// Most two-way splits tried for one case; longer texts are sampled evenly.
const MAX_SPLITS: usize = 1500;

/// The configuration of the parser that reads the case.
pub fn config(case: &Case) -> ParserConfig {
    ParserConfig {
        format: case.format_name().to_owned(),
        tool_choice: match case.tool_choice.as_deref() {
            None | Some("auto") => ToolChoice::Auto,
            Some("none") => ToolChoice::None,
            Some("required") => ToolChoice::Required,
            Some(name) => ToolChoice::Named(name.to_owned()),
        },
        parallel_tools: true,
        reasoning: if case.thinking { ReasoningMode::On } else { ReasoningMode::Off },
        ..ParserConfig::default()
    }
}

/// Checks a case in every chunking; `Err` says what is wrong.
pub fn check(plugin: &Plugin, case: &Case) -> Result<(), String> {
    matched(plugin, case).map(drop)
}

/// Like [`check`], and says which expectation the result meets: 0 is the case's own, then its alternatives in order.
pub fn matched(plugin: &Plugin, case: &Case) -> Result<usize, String> {
    let set: Arc<ToolSet> = Arc::new(tools::digest(&case.tools));
    let config = config(case);
    let cause = if case.is_cut() { StopCause::Length } else { StopCause::Eos(None) };
    let described = plugin.describe().into_iter().find(|d| d.name == config.format);
    let markers = described.map(|d| d.markers).unwrap_or_default();
    let stream = |chunks: &[&str]| run(plugin, &config, &set, chunks, &cause);
    match judge(case, &markers, MAX_SPLITS, stream, seen) {
        Verdict::Met(n) => Ok(n),
        Verdict::Differs(why) | Verdict::Broken(why) => Err(why),
    }
}

/// What of a message a client sees.
pub fn seen(message: &Message) -> Seen {
    let call = |call: &crate::assemble::Call| Call {
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        finished: call.ended,
    };
    Seen {
        content: message.content.clone(),
        reasoning: message.reasoning.clone(),
        calls: message.calls.iter().map(call).collect(),
        finish: match &message.finish {
            Some(FinishReason::Stop) => "stop",
            Some(FinishReason::Length) => "length",
            Some(FinishReason::ToolCalls) => "tool_calls",
            _ => "",
        },
    }
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
