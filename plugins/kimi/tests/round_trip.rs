//! Generated conversations in the Kimi wires come back whole.

use serde_json::Value;
use sluicegate_laws::encode::{elements, headed, turn};
use sluicegate_laws::talk::{Limits, assert_round_trip};

const THINK: Option<&str> = Some("</think>");
const THINKS: Limits = Limits { reasoning: true, ..Limits::BASE };

fn k2(calls: &[sluicegate_laws::talk::Call]) -> String {
    let head = |n: usize, name: &str| format!("<|tool_call_begin|>functions.{name}:{n}<|tool_call_argument_begin|>");
    let calls = headed(calls, head, "<|tool_call_end|>");
    format!("<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>")
}

fn k3(calls: &[sluicegate_laws::talk::Call]) -> String {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let call = |name: &str| format!("<|open|>call tool=\"{name}\" index=\"1\"<|sep|>");
    let param = |key: &str, v: &Value| format!("<|open|>argument key=\"{key}\" type=\"{}\"<|sep|>", kind(v));
    let calls = elements(calls, call, param, ["<|close|>call<|sep|>", "<|close|>argument<|sep|>"]);
    format!("<|open|>tools<|sep|>{calls}<|close|>tools<|sep|><|close|>message<|sep|>")
}

#[test]
fn generated_conversations() {
    let plugin = format_kimi::plugin();
    assert_round_trip(&plugin, "kimi_k2", THINKS, |t| turn(t, THINK, k2));
    assert_round_trip(&plugin, "kimi_k3", THINKS, |t| turn(t, Some("<|close|>think<|sep|>"), k3));
}
