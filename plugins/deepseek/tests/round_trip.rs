//! Generated conversations written in DSML come back whole.

use serde_json::Value;
use sluicegate_laws::encode::{headed, turn};
use sluicegate_laws::talk::{Limits, Talk, assert_round_trip};

/// Tag names of one spelling: block, invoke, parameter.
type Names = [&'static str; 3];

fn encode(talk: &Talk, [block, invoke, parameter]: Names) -> String {
    let mut out = format!("{}</think>{}", talk.reasoning, talk.content);
    if talk.calls.is_empty() {
        return out;
    }
    out += &format!("\n\n<｜DSML｜{block}>\n");
    for call in &talk.calls {
        out += &format!("<｜DSML｜{invoke} name=\"{}\">\n", call.name);
        for (key, value) in &call.arguments {
            let (string, text) = match value {
                Value::String(s) => (true, s.clone()),
                other => (false, other.to_string()),
            };
            out += &format!("<｜DSML｜{parameter} name=\"{key}\" string=\"{string}\">{text}</｜DSML｜{parameter}>\n");
        }
        out += &format!("</｜DSML｜{invoke}>\n");
    }
    out + &format!("</｜DSML｜{block}>")
}

#[test]
fn generated_conversations() {
    let plugin = format_deepseek::plugin();
    let limits = Limits { reasoning: true, ..Limits::BASE };
    for (format, names) in [
        ("deepseek_v32", ["function_calls", "invoke", "parameter"]),
        ("deepseek_v4", ["tool_calls", "invoke", "parameter"]),
        ("deepseek_v41", [" calls", " invoke", " parameter"]),
    ] {
        assert_round_trip(&plugin, format, limits, |talk| encode(talk, names));
    }
}

#[test]
fn section_tokens() {
    let plugin = format_deepseek::plugin();
    let limits = Limits { reasoning: true, ..Limits::BASE };
    let section = |calls: String| format!("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>");
    let fenced = |calls: &[_]| {
        let head = |_, name: &str| format!("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n");
        section(headed(calls, head, "\n```<｜tool▁call▁end｜>"))
    };
    let inline = |calls: &[_]| {
        let head = |_, name: &str| format!("<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>");
        section(headed(calls, head, "<｜tool▁call▁end｜>"))
    };
    for format in ["deepseek_v3", "deepseek_r1"] {
        assert_round_trip(&plugin, format, limits, |t| turn(t, Some("</think>"), fenced));
    }
    assert_round_trip(&plugin, "deepseek_v31", limits, |t| turn(t, Some("</think>"), inline));
}
