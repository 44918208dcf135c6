//! Generated conversations in the Qwen wires come back whole.

use sluicegate_laws::encode::{function_xml, objects, turn};
use sluicegate_laws::talk::{Limits, assert_round_trip};

const THINK: Option<&str> = Some("</think>");
const THINKS: Limits = Limits { reasoning: true, ..Limits::BASE };

const KEYS: [&str; 2] = ["name", "arguments"];

#[test]
fn generated_conversations() {
    let plugin = format_qwen::plugin();
    let hermes = |calls: &[_]| objects(calls, "\n<tool_call>\n", "\n</tool_call>", KEYS);
    assert_round_trip(&plugin, "hermes", Limits::BASE, |t| turn(t, None, hermes));
    assert_round_trip(&plugin, "qwen3", THINKS, |t| turn(t, Some("\n</think>\n\n"), hermes));
    let coder = |calls: &[_]| format!("\n{}", function_xml(calls, "<tool_call>", "</tool_call>"));
    assert_round_trip(&plugin, "qwen3_coder", THINKS, |t| turn(t, THINK, coder));
}
