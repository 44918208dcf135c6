//! Generated conversations in the Nemotron wires come back whole.

use sluicegate_laws::encode::{array, function_xml, turn};
use sluicegate_laws::talk::{Limits, assert_round_trip};

const THINK: Option<&str> = Some("</think>");
const THINKS: Limits = Limits { reasoning: true, ..Limits::BASE };

#[test]
fn generated_conversations() {
    let plugin = format_nvidia::plugin();
    let list = |calls: &[_]| array(calls, "<TOOLCALL>[", "]</TOOLCALL>", ["name", "arguments"]);
    assert_round_trip(&plugin, "nemotron_deci", THINKS, |t| turn(t, THINK, list));
    let xml = |calls: &[_]| function_xml(calls, "\n<tool_call>", "</tool_call>");
    assert_round_trip(&plugin, "nemotron3", THINKS, |t| turn(t, THINK, xml));
}
