//! Generated conversations: random tools, nested arguments, hostile text; encoded in a format they must come back.

use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use sluicegate_sdk::config::{ParserConfig, ReasoningMode, ToolChoice};
use sluicegate_sdk::event::{FinishReason, StopCause};
use sluicegate_sdk::format::Plugin;

use crate::assemble::{Message, run};
use crate::broken;
use crate::constrained::{Demand, governed};
use crate::walk::Compiler;
use crate::{chunking, tools};

/// Set to a number to try that many conversations a format.
pub const CASES_VARIABLE: &str = "SLUICEGATE_LAW_CASES";

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// What a model says in one turn.
#[derive(Clone, Debug)]
pub struct Talk {
    /// Declared tools, OpenAI shape.
    pub tools: Value,
    /// Thinking, empty for none.
    pub reasoning: String,
    /// The answer, possibly empty.
    pub content: String,
    /// Calls after the answer.
    pub calls: Vec<Call>,
}

/// What a format can carry, so that generated conversations stay within it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The format splits reasoning.
    pub reasoning: bool,
    /// Text and strings never contain one of these.
    pub never: &'static [&'static str],
    /// A turn with calls has no content.
    pub silent: bool,
    /// Objects and arrays can't be written.
    pub flat: bool,
    /// White space at the ends of string values survives.
    pub exact_strings: bool,
    /// What the format's grammars have to do with this spelling.
    pub written: Written,
}

/// What grammars have to do with a spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// They admit it.
    Yes,
    /// They admit it with a single call.
    One,
    /// It is read, but another spelling is written.
    No,
}

impl Limits {
    /// Everything but the usual tags.
    pub const BASE: Limits =
        Limits { reasoning: false, never: &[], silent: false, flat: false, exact_strings: true, written: Written::Yes };
}

/// Text that has tripped parsers.
const HOSTILE: &[&str] = &[
    "<",
    "</",
    "<|",
    "\n",
    "\n\n",
    " ",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "'",
    "`",
    "```json\n",
    "</tool_call",
    "<tool_cal",
    "<think",
    "</thin",
    "<｜",
    "｜DSML｜",
    "</｜DSML｜param",
    "[TOOL_CALLS",
    "null",
    "true",
    "1.0",
    "é",
    "北京",
    "👩‍🚀",
    "\u{200d}",
    "&amp;",
    "\t",
    "x < y && y > z",
    ",",
    ":",
    "<b>",
    "</parameter",
    "<parameter=x",
    "<arg_key",
    "\r\n",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-zA-Z0-9 .,]{1,12}".prop_map(|s| s),
        2 => proptest::sample::select(HOSTILE).prop_map(str::to_owned),
        1 => any::<char>().prop_filter("no control characters", |c| !c.is_control()).prop_map(|c| c.to_string()),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn value(depth: u32) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        1 => (-1000i32..1000).prop_map(|n| json!(f64::from(n) / 8.0)),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(depth, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[a-z_]{1,8}", inner), 0..4).prop_map(|pairs| pairs.into_iter().collect()),
        ]
    })
}

fn call() -> impl Strategy<Value = Call> {
    let arguments = proptest::collection::vec(("[a-z][a-z0-9_]{0,9}", value(3)), 0..4);
    ("[a-z][a-z0-9_]{0,14}", arguments).prop_map(|(name, pairs)| Call { name, arguments: pairs.into_iter().collect() })
}

/// Conversations that a format within `limits` can carry.
pub fn talks(limits: Limits) -> impl Strategy<Value = Talk> {
    let clean = move |s: String| limits.never.iter().fold(s, |s, never| s.replace(never, ""));
    let calls = proptest::collection::vec(call(), 0..4);
    (text(), text(), calls).prop_map(move |(reasoning, content, mut calls)| {
        for call in &mut calls {
            for value in call.arguments.values_mut() {
                if limits.flat && (value.is_array() || value.is_object()) {
                    *value = Value::from("flat");
                }
                tidy(value, &clean, limits.exact_strings);
            }
        }
        // One name has one set of parameters.
        let mut seen = std::collections::BTreeSet::new();
        calls.retain(|c| seen.insert(c.name.clone()));
        Talk {
            tools: declare(&calls),
            reasoning: if limits.reasoning { unopened(&clean(reasoning)).to_owned() } else { String::new() },
            content: if limits.silent && !calls.is_empty() { String::new() } else { clean(content).trim().to_owned() },
            calls,
        }
    })
}

/// Without openers in front: a model may write the one that its prompt ends with once more, so parsers drop it there.
fn unopened(reasoning: &str) -> &str {
    let reasoning = reasoning.trim();
    reasoning.strip_prefix("<think>").map_or(reasoning, unopened)
}

fn tidy(value: &mut Value, clean: &impl Fn(String) -> String, exact: bool) {
    match value {
        Value::String(s) => {
            *s = clean(std::mem::take(s));
            if !exact {
                *s = s.trim().to_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|v| tidy(v, clean, exact)),
        Value::Object(map) => map.values_mut().for_each(|v| tidy(v, clean, exact)),
        _ => {}
    }
}

/// Tools that declare what the calls use, plus one that nobody calls.
fn declare(calls: &[Call]) -> Value {
    let mut list =
        vec![json!({"type": "function", "function": {"name": "idle_tool", "parameters": {"type": "object"}}})];
    for call in calls {
        let properties: Map<String, Value> =
            call.arguments.iter().map(|(key, value)| (key.clone(), json!({"type": type_name(value)}))).collect();
        let parameters = json!({"type": "object", "properties": properties});
        list.push(json!({"type": "function", "function": {"name": call.name, "parameters": parameters}}));
    }
    Value::Array(list)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Every generated conversation, written by `encode`, comes back from the parser in every chunking tried.
/// `encode` writes what the model would generate; with reasoning, generation begins inside it.
pub fn assert_round_trip(plugin: &Plugin, format: &str, limits: Limits, encode: impl Fn(&Talk) -> String) {
    let cases = std::env::var(CASES_VARIABLE).ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let sizes = proptest::collection::vec(1usize..24, 1..12);
    let grammars = Grammars::new(plugin, format, limits, cases);
    let described = plugin.describe().into_iter().find(|d| d.name == format).expect("a format of the plugin");
    let result = runner.run(&(talks(limits), sizes, broken::breaks()), |(talk, sizes, breaks)| {
        let text = encode(&talk);
        let set = Arc::new(tools::digest(&talk.tools));
        let config = ParserConfig {
            format: format.to_owned(),
            reasoning: if limits.reasoning { ReasoningMode::On } else { ReasoningMode::Off },
            ..ParserConfig::default()
        };
        let parse = |chunks: &[&str]| run(plugin, &config, &set, chunks, &StopCause::Eos(None));
        grammars.admit(&talk, &encode).map_err(TestCaseError::fail)?;
        let whole = parse(&chunking::whole(&text)).map_err(TestCaseError::fail)?;
        compare(&talk, &whole, &text).map_err(TestCaseError::fail)?;
        for chunks in [chunking::points(&text), chunking::by_sizes(&text, &sizes), chunking::sized(&text, 4)] {
            let got = parse(&chunks).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&got, &whole, "chunks {:?}", chunks);
        }
        truncations(&talk, &text, &sizes, |text| run(plugin, &config, &set, &[text], &StopCause::Length))?;
        let config = ParserConfig { options: breaks.options(), ..config.clone() };
        let parse = |chunks: &[&str]| run(plugin, &config, &set, chunks, &StopCause::Eos(None));
        broken::check(&breaks.of(&text, &described.markers), &sizes, parse).map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{format}: {error}");
    }
}

/// Tries generated calls against the grammar that would have forced them.
struct Grammars<'a> {
    plugin: &'a Plugin,
    format: &'a str,
    limits: Limits,
    compiler: Compiler,
    /// How many conversations are still to be tried: compiling a grammar costs more than parsing.
    left: Cell<u32>,
}

impl<'a> Grammars<'a> {
    fn new(plugin: &'a Plugin, format: &'a str, limits: Limits, cases: u32) -> Grammars<'a> {
        let left = if limits.written == Written::No { 0 } else { cases / 8 };
        Grammars { plugin, format, limits, compiler: Compiler::default(), left: Cell::new(left) }
    }

    fn admit(&self, talk: &Talk, encode: &impl Fn(&Talk) -> String) -> Result<(), String> {
        if talk.calls.is_empty() || self.left.get() == 0 {
            return Ok(());
        }
        self.left.set(self.left.get() - 1);
        let mut silent = Talk { content: String::new(), ..talk.clone() };
        if self.limits.written == Written::One {
            silent.calls.truncate(1);
        }
        let demand = Demand {
            tools: talk.tools.clone(),
            choice: ToolChoice::Required,
            parallel: true,
            reasoning: if self.limits.reasoning { ReasoningMode::On } else { ReasoningMode::Off },
        };
        let constraint = demand.constraint(self.plugin, self.format)?.ok_or("no grammar")?;
        let text = encode(&silent);
        let governed = governed(&constraint, &text).ok_or_else(|| format!("nothing is governed in {text:?}"))?;
        let grammar = self.compiler.compile(&constraint.lark)?;
        grammar.admits(governed.trim_end()).map_err(|e| format!("{e}: {governed:?}\n{}", constraint.lark))
    }
}

/// Cut anywhere, calls that ended are a prefix of the calls, and nothing else looks complete (`run` checks that).
fn truncations(
    talk: &Talk,
    text: &str,
    sizes: &[usize],
    parse: impl Fn(&str) -> Result<Message, String>,
) -> Result<(), TestCaseError> {
    let mut at = 0;
    for size in sizes.iter().cycle().take(24) {
        at += size * 3;
        let Some(cut) = (at..text.len()).find(|i| text.is_char_boundary(*i)) else { break };
        let got = parse(&text[..cut]).map_err(|e| TestCaseError::fail(format!("cut at {cut} of {text:?}: {e}")))?;
        let ended: Vec<Value> = got.ended().map(|c| json!([c.name, parsed(&c.arguments)])).collect();
        let all: Vec<Value> = talk.calls.iter().map(|c| json!([c.name, c.arguments])).collect();
        prop_assert!(all.starts_with(&ended), "cut at {} of {:?}: {:?}", cut, text, got);
        prop_assert!(talk.content.starts_with(got.content.trim()), "cut at {} of {:?}: {:?}", cut, text, got);
        prop_assert_eq!(got.finish, Some(FinishReason::Length));
    }
    Ok(())
}

fn parsed(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or(Value::Null)
}

pub(crate) fn compare(talk: &Talk, got: &Message, text: &str) -> Result<(), String> {
    let say = |what: &str, got: &str, want: &str| format!("{what} {got:?}, wrote {want:?} in {text:?}");
    if got.content.trim() != talk.content {
        return Err(say("content", &got.content, &talk.content));
    }
    if got.reasoning.trim() != talk.reasoning {
        return Err(say("reasoning", &got.reasoning, &talk.reasoning));
    }
    let calls: Vec<Call> = got
        .calls
        .iter()
        .map(|c| Call { name: c.name.clone(), arguments: serde_json::from_str(&c.arguments).unwrap_or_default() })
        .collect();
    if calls != talk.calls {
        return Err(format!("calls {calls:?}, wrote {:?} in {text:?}", talk.calls));
    }
    Ok(())
}
