//! Generated conversations in the Command wire come back whole.

use serde_json::json;
use sluicegate_laws::encode::turn;
use sluicegate_laws::talk::{Call, Limits, assert_round_trip};

#[test]
fn generated_conversations() {
    let plugin = format_cohere::plugin();
    let one = |(n, c): (usize, &Call)| {
        json!({"tool_call_id": n.to_string(), "tool_name": c.name, "parameters": c.arguments}).to_string()
    };
    let list = |calls: &[Call]| {
        let all: Vec<String> = calls.iter().enumerate().map(one).collect();
        format!("<|START_ACTION|>[{}]<|END_ACTION|>", all.join(", "))
    };
    let thinks = Limits { reasoning: true, ..Limits::BASE };
    assert_round_trip(&plugin, "cohere_command4", thinks, |t| turn(t, Some("<|END_THINKING|>"), list));
}
