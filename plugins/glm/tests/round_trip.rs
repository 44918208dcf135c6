//! Generated conversations in key and value pairs come back whole.

use sluicegate_laws::encode::{pairs, turn};
use sluicegate_laws::talk::{Limits, assert_round_trip};

const THINK: Option<&str> = Some("</think>");
const THINKS: Limits = Limits { reasoning: true, ..Limits::BASE };

#[test]
fn generated_conversations() {
    let plugin = format_glm::plugin();
    let tags = ["<tool_call>", "</tool_call>\n"];
    assert_round_trip(&plugin, "glm45", THINKS, |t| turn(t, THINK, |calls| pairs(calls, tags, "\n")));
    assert_round_trip(&plugin, "glm47", THINKS, |t| turn(t, THINK, |calls| pairs(calls, tags, "")));
}
