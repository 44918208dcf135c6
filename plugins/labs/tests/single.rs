//! Behaviours of single formats that worked examples don't show.

use serde_json::{Value, json};
use sluicegate_laws::one::{calls, read};
use sluicegate_sdk::config::{ParserConfig, ReasoningMode, ToolChoice};

fn tools() -> Value {
    json!([
        {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "n": {"type": "integer"}}}},
        {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    ])
}

fn config(format: &str) -> ParserConfig {
    ParserConfig { format: format.to_owned(), reasoning: ReasoningMode::Off, ..ParserConfig::default() }
}

#[test]
fn a_named_tool_may_get_bare_arguments() {
    let plugin = format_labs::plugin();
    let named = ParserConfig { tool_choice: ToolChoice::Named("search".to_owned()), ..config("json") };
    let got = read(&plugin, &named, &tools(), "{\"query\": \"a}b\", \"n\": 12345678901234567890}");
    assert_eq!(calls(&got), [("search", "{\"query\": \"a}b\", \"n\": 12345678901234567890}")]);
    let got = read(&plugin, &named, &tools(), "{}");
    assert_eq!(calls(&got), [("search", "{}")]);
    // A call as usual, and an object that is neither.
    let got = read(&plugin, &named, &tools(), "{\"name\": \"search\", \"parameters\": {\"n\": 1}}");
    assert_eq!(calls(&got), [("search", "{\"n\": 1}")]);
    let got = read(&plugin, &named, &tools(), "{\"answer\": 42}");
    assert_eq!((calls(&got), got.content.as_str()), (vec![], "{\"answer\": 42}"));
    // Without a name, bare JSON is an answer.
    let got = read(&plugin, &config("json"), &tools(), "{\"query\": \"x\"}");
    assert_eq!((calls(&got), got.content.as_str()), (vec![], "{\"query\": \"x\"}"));
}

#[test]
fn a_function_may_be_nested() {
    let body = "<ifm|tool_call>{\"type\": \"function\", \"function\": {\"name\": \"search\", \"arguments\": {\"n\": 1}}}\
        </ifm|tool_call><ifm|tool_call>{\"function\": {\"arguments\": \"{\\\"n\\\": 2}\", \"name\": \"search\"}, \"id\": 3}\
        </ifm|tool_call>";
    let got = read(&format_labs::plugin(), &config("k2_horizon"), &tools(), body);
    assert_eq!(calls(&got), [("search", "{\"n\": 1}"), ("search", "{\"n\": 2}")]);
}

#[test]
fn reasoning_goes_on_behind_apertus_calls() {
    let text = "<|inner_prefix|>First.<|tools_prefix|>[{\"ping\": {}}]<|tools_suffix|> Then.<|inner_suffix|>";
    let got = read(&format_labs::plugin(), &config("apertus"), &tools(), text);
    assert_eq!((got.reasoning.as_str(), got.content.as_str()), ("First. Then.", ""));
    assert_eq!(calls(&got), [("ping", "{}")]);
}

#[test]
fn inkling_output_may_begin_with_the_name() {
    let plugin = format_labs::plugin();
    let call = "search<|content_invoke_tool_json|>{\"name\": \"search\", \"args\": {\"n\": 1}}<|end_message|>";
    assert_eq!(calls(&read(&plugin, &config("inkling"), &tools(), call)), [("search", "{\"n\": 1}")]);
    let got = read(&plugin, &config("inkling"), &tools(), "searching for it");
    assert_eq!(got.content, "searching for it");
}

#[test]
fn a_beam_call_without_parameters_may_end_with_its_header() {
    let text = " to=ping<|channel|>analysis <|constrain|>xml<|message|>";
    let got = read(&format_labs::plugin(), &config("beam"), &tools(), text);
    assert_eq!(calls(&got), [("ping", "{}")]);
}
