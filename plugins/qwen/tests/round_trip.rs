//! Generated conversations written as JSON in `<tool_call>` come back whole.

use serde_json::json;
use sluicegate_laws::talk::{Limits, Talk, assert_round_trip};

fn encode(talk: &Talk, reasoning: bool) -> String {
    let mut out = if reasoning { format!("{}\n</think>\n\n", talk.reasoning) } else { String::new() };
    out += &talk.content;
    for call in &talk.calls {
        out += &format!("\n<tool_call>\n{}\n</tool_call>", json!({"name": call.name, "arguments": call.arguments}));
    }
    out
}

#[test]
fn generated_conversations() {
    let plugin = format_qwen::plugin();
    assert_round_trip(&plugin, "hermes", Limits::BASE, |talk| encode(talk, false));
    assert_round_trip(&plugin, "qwen3", Limits { reasoning: true, ..Limits::BASE }, |talk| encode(talk, true));
}
