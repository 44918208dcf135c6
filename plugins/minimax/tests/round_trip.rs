//! Generated conversations in the MiniMax wires come back whole.

use sluicegate_laws::encode::{elements, turn};
use sluicegate_laws::talk::{Limits, assert_round_trip};

const THINK: Option<&str> = Some("</think>");
const THINKS: Limits = Limits { reasoning: true, ..Limits::BASE };

#[test]
fn generated_conversations() {
    let plugin = format_minimax::plugin();
    let m2 = |calls: &[_]| {
        let call = |name: &str| format!("<invoke name=\"{name}\">\n");
        let param = |key: &str, _: &_| format!("<parameter name=\"{key}\">");
        let calls = elements(calls, call, param, ["</invoke>\n", "</parameter>\n"]);
        format!("\n<minimax:tool_call>\n{calls}</minimax:tool_call>")
    };
    assert_round_trip(&plugin, "minimax_m2", THINKS, |t| turn(t, THINK, m2));
    const NS: &str = "]<]minimax[>[";
    let m3 = |calls: &[sluicegate_laws::talk::Call]| {
        let mut out = format!("{NS}<tool_call>\n");
        for c in calls {
            out += &format!("{NS}<invoke name=\"{}\">", c.name);
            for (key, value) in &c.arguments {
                out += &format!("{NS}<{key}>{}{NS}</{key}>", sluicegate_laws::encode::plain(value));
            }
            out += &format!("{NS}</invoke>\n");
        }
        out + &format!("{NS}</tool_call>")
    };
    let flat = Limits { flat: true, ..THINKS };
    assert_round_trip(&plugin, "minimax_m3", flat, |t| turn(t, Some("</mm:think>"), m3));
}
