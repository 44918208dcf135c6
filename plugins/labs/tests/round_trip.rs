//! Generated conversations in the wires of this component come back whole.

use serde_json::{Value, json};
use sluicegate_laws::by_tokens::assert_by_tokens;
use sluicegate_laws::encode::{array, elements, function_xml, headed, objects, pairs, python, tagged_pairs, turn};
use sluicegate_laws::talk::{Call, Limits, Talk, Written, assert_round_trip};

const THINK: Option<&str> = Some("</think>");
const THINKS: Limits = Limits { reasoning: true, ..Limits::BASE };

const KEYS: [&str; 2] = ["name", "arguments"];

#[test]
fn json_wires() {
    let plugin = format_labs::plugin();
    let object = |open: &'static str, close: &'static str| move |calls: &[Call]| objects(calls, open, close, KEYS);
    let list = |open: &'static str, close: &'static str| move |calls: &[Call]| array(calls, open, close, KEYS);
    let ernie = object("\n<tool_call>\n", "\n</tool_call>\n");
    assert_round_trip(&plugin, "ernie45", THINKS, |t| turn(t, Some("\n</think>\n\n\n"), ernie));
    let longcat = object("<longcat_tool_call>", "</longcat_tool_call>");
    assert_round_trip(&plugin, "longcat", Limits::BASE, |t| turn(t, None, longcat));
    let jamba = list("<tool_calls>[", "]</tool_calls>");
    assert_round_trip(&plugin, "jamba", Limits::BASE, |t| turn(t, None, jamba));
    assert_round_trip(&plugin, "phi4_mini_json", Limits::BASE, |t| turn(t, None, list("functools[", "]")));
    let keys = ["name", "parameters"];
    let intern = |calls: &[Call]| objects(calls, "<|action_start|> <|plugin|>\n", "<|action_end|>", keys);
    assert_round_trip(&plugin, "internlm", THINKS, |t| turn(t, THINK, intern));
    let xlam = list("[TOOL_CALLS][", "]");
    assert_round_trip(&plugin, "xlam", Limits { never: &["[TOOL_CALLS"], written: Written::No, ..Limits::BASE }, |t| {
        turn(t, None, xlam)
    });
    let apertus = |calls: &[Call]| {
        let list: Vec<String> = calls.iter().map(|c| json!({c.name.clone(): c.arguments}).to_string()).collect();
        format!("<|tools_prefix|>[{}]<|tools_suffix|>", list.join(", "))
    };
    assert_round_trip(&plugin, "apertus", THINKS, |t| turn(t, Some("<|inner_suffix|>"), apertus));
    let gigachat = |calls: &[Call]| objects(calls, "<|message_sep|>\n\nfunction call<|role_sep|>\n", "", KEYS);
    let single = Limits { written: Written::One, ..Limits::BASE };
    assert_round_trip(&plugin, "gigachat3", single, |t| turn(t, None, gigachat));
    let plamo = |calls: &[Call]| {
        let head = |_, name: &str| {
            let name = format!("<|plamo:begin_tool_name:plamo|>{name}<|plamo:end_tool_name:plamo|>");
            let open = "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>";
            format!("<|plamo:begin_tool_request:plamo|>{name}{open}")
        };
        let close = "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>";
        let calls = headed(calls, head, close);
        format!("<|plamo:begin_tool_requests:plamo|>{calls}<|plamo:end_tool_requests:plamo|>")
    };
    assert_round_trip(&plugin, "plamo3", THINKS, |t| turn(t, Some("<|plamo:end_think:plamo|>"), plamo));
}

#[test]
fn bare_json() {
    let plugin = format_labs::plugin();
    // Bare JSON is the whole answer, so there is content or there are calls.
    let list = |calls: &[Call]| array(calls, "[", "]", ["name", "parameters"]);
    assert_round_trip(&plugin, "json", Limits { silent: true, ..Limits::BASE }, |t| turn(t, None, list));
}

#[test]
fn tag_wires() {
    let plugin = format_labs::plugin();
    let xml = |calls: &[Call]| function_xml(calls, "\n<tool_call>", "</tool_call>");
    // Its reasoning may open twice: in the prompt and in the output.
    assert_round_trip(&plugin, "step3p5", Limits { never: &["<think>"], ..THINKS }, |t| turn(t, THINK, xml));
    // In its prose a backslash may be the beginning of a line feed.
    assert_round_trip(&plugin, "minicpmv", Limits { never: &["\\"], ..THINKS }, |t| turn(t, THINK, xml));
    let seed = |calls: &[Call]| function_xml(calls, "\n<seed:tool_call>", "</seed:tool_call>");
    assert_round_trip(&plugin, "seed_oss", THINKS, |t| turn(t, Some("</seed:think>"), seed));
    let mimo = |calls: &[Call]| {
        let call = |name: &str| format!("<tool_call>\n<function={name}>\n");
        let closers = ["</function>\n</tool_call>\n", "</parameter>\n"];
        elements(calls, call, |key, _| format!("<parameter={key}>"), closers)
    };
    assert_round_trip(&plugin, "mimo", THINKS, |t| turn(t, THINK, mimo));
    let gcml = |calls: &[Call]| {
        let call = |name: &str| format!("<｜GCML｜invoke name=\"{name}\">\n");
        let param = |key: &str, v: &Value| format!("<｜GCML｜parameter name=\"{key}\" string=\"{}\">", v.is_string());
        let calls = elements(calls, call, param, ["</｜GCML｜invoke>\n", "</｜GCML｜parameter>\n"]);
        format!("\n\n<｜GCML｜tool_calls>\n{calls}</｜GCML｜tool_calls>")
    };
    assert_round_trip(&plugin, "gigachat35", THINKS, |t| turn(t, THINK, gcml));
    let invoke = |calls: &[Call], ns: &str, [open, close]: [&str; 2]| {
        let call = |name: &str| format!("{open}<{ns}invoke name=\"{name}\">\n");
        let param = |key: &str, _: &_| format!("<{ns}parameter name=\"{key}\">");
        elements(calls, call, param, [&format!("</{ns}invoke>{close}\n"), &format!("</{ns}parameter>\n")])
    };
    let trimmed = Limits { exact_strings: false, ..THINKS };
    let dots = |calls: &[Call]| format!("<dots_function_call>\n{}</dots_function_call>", invoke(calls, "", ["", ""]));
    assert_round_trip(&plugin, "dots", trimmed, |t| turn(t, THINK, dots));
    let step3 = |calls: &[Call]| {
        let calls = invoke(calls, "steptml:", ["<｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_end｜>"]);
        format!("<｜tool_calls_begin｜>\n{calls}<｜tool_calls_end｜>")
    };
    assert_round_trip(&plugin, "step3", trimmed, |t| turn(t, THINK, step3));
    let param = |calls: &[Call]| {
        let call = |name: &str| format!("<function name=\"{name}\">");
        elements(calls, call, |key, _| format!("<param name=\"{key}\"><![CDATA["), ["</function>", "]]></param>"])
    };
    assert_round_trip(&plugin, "minicpm5", Limits { never: &["]]>"], written: Written::No, ..THINKS }, |t| {
        turn(t, THINK, param)
    });
}

#[test]
fn pair_wires() {
    let plugin = format_labs::plugin();
    let tags = ["<tool_call>", "</tool_call>\n"];
    assert_round_trip(&plugin, "ling3", THINKS, |t| turn(t, THINK, |calls| pairs(calls, tags, "\n")));
    let iquest = ["<iquest_tool_call>", "</iquest_tool_call>"];
    assert_round_trip(&plugin, "iquest_q1", THINKS, |t| turn(t, THINK, |calls| pairs(calls, iquest, "")));
    // One newline around values is layout there.
    let framed = |calls: &[Call]| {
        tagged_pairs(calls, [tags, ["<arg_key>", "</arg_key>"], ["<arg_value>\n", "\n</arg_value>"]], "\n")
    };
    let clean = Limits { never: &["<arg_value>", "</arg_value>"], ..THINKS };
    assert_round_trip(&plugin, "poolside_v1", clean, |t| turn(t, THINK, framed));
    assert_round_trip(&plugin, "spark25", Limits { reasoning: false, ..clean }, |t| turn(t, None, framed));
    let ifm = |calls: &[Call]| {
        let tags = [
            ["<ifm|tool_call>", "</ifm|tool_call>"],
            ["<ifm|arg_key>", "</ifm|arg_key>"],
            ["<ifm|arg_value>", "</ifm|arg_value>"],
        ];
        format!("<ifm|tool_calls>{}</ifm|tool_calls>", tagged_pairs(calls, tags, ""))
    };
    assert_round_trip(&plugin, "k2_horizon", THINKS, |t| turn(t, Some("</ifm|think>"), ifm));
}

#[test]
fn python_wires() {
    let plugin = format_labs::plugin();
    let lfm2 = |calls: &[Call]| format!("<|tool_call_start|>[{}]<|tool_call_end|>", python(calls, ", "));
    assert_round_trip(&plugin, "lfm2", Limits::BASE, |t| turn(t, None, lfm2));
    let olmo = |calls: &[Call]| format!("<function_calls>\n{}\n</function_calls>", python(calls, "\n"));
    assert_round_trip(&plugin, "olmo3", THINKS, |t| turn(t, THINK, olmo));
    let sarashina = |calls: &[Call]| array(calls, "<|tool_calls|>[", "]", KEYS);
    assert_round_trip(&plugin, "sarashina", Limits::BASE, |t| turn(t, None, sarashina));
}

fn inkling(t: &Talk) -> String {
    let mut out = format!("<|content_thinking|>{}<|end_message|>", t.reasoning);
    if !t.content.is_empty() {
        out += &format!("<|message_model|><|content_text|>{}<|end_message|>", t.content);
    }
    for call in &t.calls {
        let open = format!("<|message_model|>{}<|content_invoke_tool_json|>", call.name);
        out += &objects(std::slice::from_ref(call), &open, "<|end_message|>", ["name", "args"]);
    }
    out
}

fn beam(t: &Talk) -> String {
    let mut out = format!("<|channel|>analysis<|message|>{}<|end|>", t.reasoning);
    if !t.content.is_empty() {
        out += &format!("<|start|>assistant<|channel|>final<|message|>{}<|end|>", t.content);
    }
    let head = |name: &str| format!("<|start|>assistant to={name}<|channel|>analysis <|constrain|>xml<|message|>");
    let param = |key: &str, _: &_| format!("<rfl:parameter name=\"{key}\">\n");
    out + &elements(&t.calls, head, param, ["<|call|>", "\n</rfl:parameter>\n"])
}

#[test]
fn channel_wires() {
    let plugin = format_labs::plugin();
    assert_round_trip(&plugin, "inkling", THINKS, inkling);
    assert_round_trip(&plugin, "beam", THINKS, beam);
}

#[test]
fn ids_tell_tokens_from_text_that_looks_like_them() {
    let plugin = format_labs::plugin();
    assert_by_tokens(&plugin, "inkling", THINKS, inkling);
    assert_by_tokens(&plugin, "beam", THINKS, beam);
}
