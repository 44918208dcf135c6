//! Generated conversations in the Gemma literal come back whole.

use serde_json::Value;
use sluicegate_laws::encode::{plain, turn};
use sluicegate_laws::talk::{Limits, assert_round_trip};

/// A value in the literal whose strings stand between `quote`s.
fn brace(value: &Value, quote: &str) -> String {
    match value {
        Value::String(text) => format!("{quote}{text}{quote}"),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|v| brace(v, quote)).collect::<Vec<_>>().join(","))
        }
        Value::Object(map) => {
            let fields: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", brace(v, quote))).collect();
            format!("{{{}}}", fields.join(","))
        }
        other => other.to_string(),
    }
}

#[test]
fn generated_conversations() {
    let plugin = format_google::plugin();
    let thinks = Limits { reasoning: true, ..Limits::BASE };
    assert_round_trip(&plugin, "gemma4", thinks, |t| {
        turn(t, Some("<channel|>"), |calls| {
            let one = |c: &sluicegate_laws::talk::Call| {
                let fields = brace(&Value::Object(c.arguments.clone()), "<|\"|>");
                format!("<|tool_call>call:{}{fields}<tool_call|>", c.name)
            };
            calls.iter().map(one).collect()
        })
    });
}

/// Every value stands between the quotes, the schema says what it is.
#[test]
fn typed_text() {
    let plugin = format_google::plugin();
    let clean = Limits { never: &["<escape>"], ..Limits::BASE };
    assert_round_trip(&plugin, "functiongemma", clean, |t| {
        turn(t, None, |calls| {
            let field = |(key, value): (&String, &Value)| format!("{key}:<escape>{}<escape>", plain(value));
            let one = |c: &sluicegate_laws::talk::Call| {
                let fields: Vec<String> = c.arguments.iter().map(field).collect();
                format!("<start_function_call>call:{}{{{}}}<end_function_call>", c.name, fields.join(","))
            };
            calls.iter().map(one).collect()
        })
    });
}
