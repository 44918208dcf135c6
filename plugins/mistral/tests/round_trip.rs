//! Generated conversations in the Mistral wires come back whole.

use sluicegate_laws::encode::{array, headed, turn};
use sluicegate_laws::talk::{Limits, Written, assert_round_trip};

#[test]
fn generated_conversations() {
    let plugin = format_mistral::plugin();
    let keys = ["name", "arguments"];
    let thinks = Limits { reasoning: true, never: &["[TOOL_CALLS"], ..Limits::BASE };
    let close = Some("[/THINK]");
    let old = |calls: &[_]| array(calls, "[TOOL_CALLS] [", "]", keys);
    let read = Limits { written: Written::No, ..thinks };
    assert_round_trip(&plugin, "mistral", read, |t| turn(t, close, old));
    let new = |calls: &[_]| headed(calls, |_, name| format!("[TOOL_CALLS]{name}[ARGS]"), "");
    assert_round_trip(&plugin, "mistral", thinks, |t| turn(t, close, new));
}
