//! Generated conversations in Harmony come back whole.

use serde_json::Value;
use sluicegate_laws::by_tokens::assert_by_tokens;
use sluicegate_laws::talk::{Limits, Talk, assert_round_trip};

const THINKS: Limits = Limits { reasoning: true, ..Limits::BASE };

fn encode(t: &Talk) -> String {
    let mut out = format!("<|channel|>analysis<|message|>{}<|end|>", t.reasoning);
    if !t.content.is_empty() {
        out += &format!("<|start|>assistant<|channel|>commentary<|message|>{}<|end|>", t.content);
    }
    for c in &t.calls {
        out += &format!("<|start|>assistant<|channel|>commentary to=functions.{} <|constrain|>json", c.name);
        out += &format!("<|message|>{}<|call|>", Value::Object(c.arguments.clone()));
    }
    out
}

#[test]
fn generated_messages() {
    assert_round_trip(&format_openai::plugin(), "harmony", THINKS, encode);
}

#[test]
fn ids_tell_tokens_from_text_that_looks_like_them() {
    assert_by_tokens(&format_openai::plugin(), "harmony", THINKS, encode);
}
