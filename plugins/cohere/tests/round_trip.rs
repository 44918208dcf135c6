//! Generated conversations in the Command wire come back whole.

use sluicegate_laws::encode::{array, turn};
use sluicegate_laws::talk::{Limits, assert_round_trip};

#[test]
fn generated_conversations() {
    let plugin = format_cohere::plugin();
    let list = |calls: &[_]| array(calls, "<|START_ACTION|>[", "]<|END_ACTION|>", ["tool_name", "parameters"]);
    let thinks = Limits { reasoning: true, ..Limits::BASE };
    assert_round_trip(&plugin, "cohere_command4", thinks, |t| turn(t, Some("<|END_THINKING|>"), list));
}
