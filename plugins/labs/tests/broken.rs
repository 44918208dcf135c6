//! Calls that break: what is left of them, and what follows them, does not depend on the cut.

use serde_json::{Value, json};
use sluicegate_laws::assemble::Message;
use sluicegate_laws::one::{calls, read};
use sluicegate_sdk::config::{ParserConfig, ReasoningMode};

/// Reads a text in every cut, keeping text behind calls.
fn parse(format: &str, text: &str) -> Message {
    let tools: Value =
        json!([{"name": "f", "parameters": {"properties": {"o": {"type": "object"}, "n": {"type": "integer"}}}}]);
    let config = ParserConfig {
        format: format.to_owned(),
        reasoning: ReasoningMode::Off,
        options: r#"{"after_calls":"content"}"#.to_owned(),
        ..ParserConfig::default()
    };
    read(&format_labs::plugin(), &config, &tools, text)
}

#[test]
fn a_call_without_a_name_is_none() {
    let texts = [
        ("apertus", "<|tools_prefix|>[{\"\": {\"n\": 1}}, {\"f\": {}}]<|tools_suffix|>"),
        (
            "beam",
            " to=<|message|><rfl:parameter name=\"n\">1</rfl:parameter><|call|><|start|>assistant to=f<|message|><|call|>",
        ),
        (
            "gigachat35",
            "<｜GCML｜tool_calls><｜GCML｜invoke name=\"\"></｜GCML｜invoke><｜GCML｜invoke name=\"f\"></｜GCML｜invoke></｜GCML｜tool_calls>",
        ),
    ];
    for (format, text) in texts {
        let got = parse(format, text);
        assert_eq!(calls(&got), [("f", "{}")], "{format}: {got:?}");
        assert_eq!(got.calls.len(), 1, "{format}");
    }
}

#[test]
fn text_behind_a_dict_that_is_no_call_stands() {
    let got =
        parse("lfm2", "<|tool_call_start|>[{'k': [1, '<|tool_call_end|>']}, {\"name\": \"f\"}]<|tool_call_end|>So.");
    assert_eq!((calls(&got), got.content.as_str()), (vec![], "So."));
}

#[test]
fn parameters_behind_a_json_body_are_dropped() {
    for body in ["{}", "{\"n\": 1}"] {
        let text = format!(
            "<｜GCML｜tool_calls><｜GCML｜invoke name=\"f\">{body}<｜GCML｜parameter name=\"o\">{{}}</｜GCML｜parameter></｜GCML｜invoke></｜GCML｜tool_calls>"
        );
        assert_eq!(calls(&parse("gigachat35", &text)), [("f", body)]);
    }
}

#[test]
fn a_long_object_that_breaks_hides_what_it_holds() {
    let call = |value: &str| {
        format!("<seed:tool_call><function=f><parameter=o>{value}</parameter></function></seed:tool_call>So.")
    };
    // Before it is long enough to stream it becomes a string; afterwards the call is lost. Markers in it are data either way.
    let held = format!("{{\"k\": \"{}\" broken <function=f> {}", "a".repeat(1000), "b".repeat(4000));
    let got = parse("seed_oss", &call(&held));
    assert_eq!((got.ended().count(), got.content.as_str()), (1, "So."));
    assert_eq!(serde_json::from_str::<Value>(&got.calls[0].arguments).expect("JSON")["o"], held);
    let streamed = format!("{{\"k\": \"{}\" broken <function=f> {}", "a".repeat(4200), "b".repeat(100));
    let got = parse("seed_oss", &call(&streamed));
    assert_eq!((got.calls.len(), got.ended().count(), got.content.as_str()), (1, 0, "So."));
}

#[test]
fn a_name_beyond_its_limit_is_one_no_matter_how_it_comes() {
    let long = "n".repeat(1500);
    let got = parse("seed_oss", &format!("<seed:tool_call><function={long}></function></seed:tool_call>So."));
    assert_eq!((got.calls.len(), got.content.as_str()), (0, "So."));
    let got = parse("lfm2", &format!("<|tool_call_start|>[{long}()]<|tool_call_end|>So."));
    assert_eq!((got.calls.len(), got.content.as_str()), (0, "So."));
}
