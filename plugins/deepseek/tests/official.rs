//! DeepSeek's own parser on the same texts: equal but where a stricter or more faithful reading was chosen.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use sluicegate_laws::assemble::run;
use sluicegate_laws::{chunking, tools};
use sluicegate_sdk::config::{ParserConfig, ReasoningMode};
use sluicegate_sdk::event::{FinishReason, StopCause};
use sluicegate_sdk::tools::ToolSet;

#[derive(Deserialize)]
struct Vector {
    case: String,
    text: String,
    thinking: bool,
    parse_tools: bool,
    feed: String,
    backend_finish: String,
    reasoning: String,
    content: String,
    calls: Vec<Call>,
    finish_reason: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Call {
    name: String,
    arguments: String,
}

/// Where we differ: case, what we give instead (content, calls), and why that is right.
fn differences() -> Vec<(&'static str, Option<&'static str>, Option<Value>, &'static str)> {
    let call = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    vec![
        (
            "value_with_partial_closer",
            None,
            Some(json!([call("f", "{\"a\": \"say </｜DSML｜param now\"}")])),
            "only a well-formed closer of the right name ends a value",
        ),
        ("bad_json", None, Some(json!([call("f", "{\"a\": \"{bad\"}")])), "a client never gets invalid JSON"),
        ("bare_word_json", None, Some(json!([call("f", "{\"a\": \"plain\"}")])), "a client never gets invalid JSON"),
        (
            "string_attr_other",
            None,
            Some(json!([call("f", "{\"a\": \"v\"}")])),
            "an odd attribute leaves the schema to decide",
        ),
        (
            "string_attr_missing",
            None,
            Some(json!([call("f", "{\"a\": \"5\"}")])),
            "a missing attribute leaves the schema to decide",
        ),
        ("duplicate_param", None, Some(json!([call("f", "{\"a\": \"1\"}")])), "the first of two equal keys stands"),
        ("direct_json_body", None, Some(json!([call("f", "{\"a\": 1}")])), "the arguments are not lost"),
        ("two_blocks", None, Some(json!([call("f", "{}"), call("g", "{}")])), "no call is lost"),
        ("truncated_json", None, Some(json!([call("f", "")])), "a value is withheld until it is known to be JSON"),
        ("truncated_between_params", None, Some(json!([call("f", "{\"a\": \"x")])), "a closer is one if a tag follows"),
        ("dsml_in_prose", Some("about <｜DSML｜ markers"), None, "what is no tag is text"),
    ]
}

#[test]
fn agrees_with_the_official_parser() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("../golden/v4_official_parser.json")).unwrap();
    let plugin = format_deepseek::plugin();
    let mut failed = Vec::new();
    for v in &vectors {
        // The official parser needs no declarations; one that nobody calls turns parsing on here.
        let declared = if v.parse_tools { json!([{"name": "idle_tool"}]) } else { json!([]) };
        let set: Arc<ToolSet> = Arc::new(tools::digest(&declared));
        let config = ParserConfig {
            format: "deepseek_v4".to_owned(),
            reasoning: if v.thinking { ReasoningMode::On } else { ReasoningMode::Off },
            ..ParserConfig::default()
        };
        let cause = if v.backend_finish == "Length" { StopCause::Length } else { StopCause::Eos(None) };
        let chunks = match v.feed.as_str() {
            "text/1" => chunking::points(&v.text),
            "text/7" => chunking::sized(&v.text, 7),
            _ => chunking::whole(&v.text),
        };
        let got = run(&plugin, &config, &set, &chunks, &cause).unwrap_or_else(|e| panic!("{}: {e}", v.case));
        let ours: Vec<Call> =
            got.calls.iter().map(|c| Call { name: c.name.clone(), arguments: c.arguments.clone() }).collect();
        let difference = differences().into_iter().find(|d| d.0 == v.case);
        let (content, calls) = match &difference {
            None => (v.content.clone(), v.calls.clone()),
            Some((_, content, calls, _)) => (
                content.map_or(v.content.clone(), str::to_owned),
                calls.clone().map_or(v.calls.clone(), |c| serde_json::from_value(c).unwrap()),
            ),
        };
        let finish = match got.finish {
            Some(FinishReason::ToolCalls) => "tool_calls",
            Some(FinishReason::Length) => "length",
            _ => "stop",
        };
        let same = got.reasoning == v.reasoning && got.content == content && finish == v.finish_reason;
        if !same || ours != calls {
            failed
                .push(format!("{} ({}): got {got:?}, want {content:?} {calls:?} {}", v.case, v.feed, v.finish_reason));
        }
    }
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
}
