//! Behaviours of the Kimi formats that worked examples don't show.

use serde_json::json;
use sluicegate_laws::one::{calls, read};
use sluicegate_sdk::config::{ParserConfig, ReasoningMode};

#[test]
fn attributes_have_entities() {
    let tools = json!([{"name": "f", "parameters": {"type": "object", "properties": {"a\"b&c": {"type": "string"}}}}]);
    let config =
        ParserConfig { format: "kimi_k3".to_owned(), reasoning: ReasoningMode::Off, ..ParserConfig::default() };
    let text = "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>\
        <|open|>argument key=\"a&quot;b&amp;c\" type=\"string\"<|sep|>&quot;<|close|>argument<|sep|>\
        <|close|>call<|sep|><|close|>tools<|sep|>";
    let got = read(&format_kimi::plugin(), &config, &tools, text);
    assert_eq!(calls(&got), [("f", r#"{"a\"b&c": "&quot;"}"#)]);
}
