//! Generated conversations in Harmony come back whole.

use serde_json::Value;
use sluicegate_laws::talk::{Limits, assert_round_trip};

#[test]
fn generated_messages() {
    let plugin = format_openai::plugin();
    let thinks = Limits { reasoning: true, ..Limits::BASE };
    assert_round_trip(&plugin, "harmony", thinks, |t| {
        let mut out = format!("<|channel|>analysis<|message|>{}<|end|>", t.reasoning);
        if !t.content.is_empty() {
            out += &format!("<|start|>assistant<|channel|>commentary<|message|>{}<|end|>", t.content);
        }
        for c in &t.calls {
            out += &format!("<|start|>assistant<|channel|>commentary to=functions.{} <|constrain|>json", c.name);
            out += &format!("<|message|>{}<|call|>", Value::Object(c.arguments.clone()));
        }
        out
    });
}
