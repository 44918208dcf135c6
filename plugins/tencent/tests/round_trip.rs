//! Generated conversations in the Hunyuan wires come back whole.

use sluicegate_laws::encode::{array, pairs, tagged_pairs, turn};
use sluicegate_laws::talk::{Limits, Written, assert_round_trip};

const THINK: Option<&str> = Some("</think>");
const THINKS: Limits = Limits { reasoning: true, ..Limits::BASE };

#[test]
fn generated_conversations() {
    let plugin = format_tencent::plugin();
    let list = |calls: &[_]| array(calls, "<tool_calls>[", "]</tool_calls>", ["name", "arguments"]);
    assert_round_trip(&plugin, "hunyuan_a13b", THINKS, |t| turn(t, THINK, list));
    let v4 = |calls: &[_]| format!("<tool_calls>{}</tool_calls>", pairs(calls, ["<tool_call>", "</tool_call>"], ""));
    assert_round_trip(&plugin, "hunyuan", THINKS, |t| turn(t, THINK, v4));
    // A checkpoint's suffix on every tag.
    let suffixed = |calls: &[_]| {
        let tags = [
            ["<tool_call:6124c78e>", "</tool_call:6124c78e>"],
            ["<arg_key:6124c78e>", "</arg_key:6124c78e>"],
            ["<arg_value:6124c78e>", "</arg_value:6124c78e>"],
        ];
        format!("<tool_calls:6124c78e>{}</tool_calls:6124c78e>", tagged_pairs(calls, tags, ""))
    };
    let read = Limits { written: Written::No, ..THINKS };
    assert_round_trip(&plugin, "hunyuan", read, |t| turn(t, Some("</think:6124c78e>"), suffixed));
}
