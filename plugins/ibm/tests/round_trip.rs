//! Generated conversations in the Granite wires come back whole.

use sluicegate_laws::encode::{array, function_xml, objects, turn};
use sluicegate_laws::talk::{Limits, assert_round_trip};

const THINK: Option<&str> = Some("</think>");
const THINKS: Limits = Limits { reasoning: true, ..Limits::BASE };

#[test]
fn generated_conversations() {
    let plugin = format_ibm::plugin();
    let keys = ["name", "arguments"];
    let list = |calls: &[_]| array(calls, "<|tool_call|> [", "]", keys);
    assert_round_trip(&plugin, "granite", THINKS, |t| turn(t, Some("\n\nHere is my response: "), list));
    let each = |calls: &[_]| objects(calls, "<function_call> ", "\n", keys);
    assert_round_trip(&plugin, "granite_20b_fc", Limits::BASE, |t| turn(t, None, each));
    let xml = |calls: &[_]| function_xml(calls, "\n<tool_call>", "</tool_call>");
    assert_round_trip(&plugin, "granite_thinking", THINKS, |t| turn(t, THINK, xml));
}
