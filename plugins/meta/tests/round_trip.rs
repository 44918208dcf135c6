//! Generated conversations in the Llama and Muse wires come back whole.

use sluicegate_laws::encode::{elements, objects, python, turn};
use sluicegate_laws::talk::{Limits, assert_round_trip};

#[test]
fn generated_conversations() {
    let plugin = format_meta::plugin();
    let keys = ["name", "parameters"];
    let json = |calls: &[_]| format!("<|python_tag|>{}", objects(calls, "", ";", keys).trim_end_matches(';'));
    assert_round_trip(&plugin, "llama3_json", Limits::BASE, |t| turn(t, None, json));
    let list = |calls: &[_]| format!("[{}]", python(calls, ", "));
    assert_round_trip(&plugin, "pythonic", Limits::BASE, |t| turn(t, None, list));
    let framed = |calls: &[_]| format!("<|python_start|>[{}]<|python_end|>", python(calls, ", "));
    assert_round_trip(&plugin, "llama4_pythonic", Limits::BASE, |t| turn(t, None, framed));
}

#[test]
fn generated_messages() {
    let plugin = format_meta::plugin();
    let thinks = Limits { reasoning: true, ..Limits::BASE };
    assert_round_trip(&plugin, "muse", thinks, |t| {
        let call = |name: &str| format!("<atem:invoke name=\"{name}\">\n");
        let param = |key: &str, _: &_| format!("<atem:parameter name=\"{key}\">");
        let mut out = format!(" to=self<|message|>{}<|eom|>", t.reasoning);
        if !t.content.is_empty() {
            out += &format!("<|start|>assistant to=user<|message|>{}<|eom|>", t.content);
        }
        for one in &t.calls {
            let body = elements(std::slice::from_ref(one), call, param, ["</atem:invoke>\n", "</atem:parameter>\n"]);
            out += &format!("<|start|>assistant to={}<|message|><atem:function_calls>\n", one.name);
            out += &format!("{body}</atem:function_calls><|eom|>");
        }
        out
    });
}
