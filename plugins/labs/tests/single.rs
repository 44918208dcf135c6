//! Behaviours of single formats that worked examples don't show.

use serde_json::{Value, json};
use sluicegate_laws::one::{calls, read};
use sluicegate_sdk::config::{ParserConfig, ReasoningMode, ToolChoice};

fn tools() -> Value {
    json!([
        {"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "n": {"type": "integer"}}}},
        {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    ])
}

fn config(format: &str) -> ParserConfig {
    ParserConfig { format: format.to_owned(), reasoning: ReasoningMode::Off, ..ParserConfig::default() }
}

#[test]
fn a_named_tool_may_get_bare_arguments() {
    let plugin = format_labs::plugin();
    let named = ParserConfig { tool_choice: ToolChoice::Named("search".to_owned()), ..config("json") };
    let got = read(&plugin, &named, &tools(), "{\"query\": \"a}b\", \"n\": 12345678901234567890}");
    assert_eq!(calls(&got), [("search", "{\"query\": \"a}b\", \"n\": 12345678901234567890}")]);
    let got = read(&plugin, &named, &tools(), "{}");
    assert_eq!(calls(&got), [("search", "{}")]);
    // A call as usual, and an object that is neither.
    let got = read(&plugin, &named, &tools(), "{\"name\": \"search\", \"parameters\": {\"n\": 1}}");
    assert_eq!(calls(&got), [("search", "{\"n\": 1}")]);
    let got = read(&plugin, &named, &tools(), "{\"answer\": 42}");
    assert_eq!((calls(&got), got.content.as_str()), (vec![], "{\"answer\": 42}"));
    // Without a name, bare JSON is an answer.
    let got = read(&plugin, &config("json"), &tools(), "{\"query\": \"x\"}");
    assert_eq!((calls(&got), got.content.as_str()), (vec![], "{\"query\": \"x\"}"));
}

#[test]
fn a_function_may_be_nested() {
    let body = "<ifm|tool_call>{\"type\": \"function\", \"function\": {\"name\": \"search\", \"arguments\": {\"n\": 1}}}\
        </ifm|tool_call><ifm|tool_call>{\"function\": {\"arguments\": \"{\\\"n\\\": 2}\", \"name\": \"search\"}, \"id\": 3}\
        </ifm|tool_call>";
    let got = read(&format_labs::plugin(), &config("k2_horizon"), &tools(), body);
    assert_eq!(calls(&got), [("search", "{\"n\": 1}"), ("search", "{\"n\": 2}")]);
}

#[test]
fn reasoning_goes_on_behind_apertus_calls() {
    let text = "<|inner_prefix|>First.<|tools_prefix|>[{\"ping\": {}}]<|tools_suffix|> Then.<|inner_suffix|>";
    let got = read(&format_labs::plugin(), &config("apertus"), &tools(), text);
    assert_eq!((got.reasoning.as_str(), got.content.as_str()), ("First. Then.", ""));
    assert_eq!(calls(&got), [("ping", "{}")]);
}

#[test]
fn inkling_output_may_begin_with_the_name() {
    let plugin = format_labs::plugin();
    let call = "search<|content_invoke_tool_json|>{\"name\": \"search\", \"args\": {\"n\": 1}}<|end_message|>";
    assert_eq!(calls(&read(&plugin, &config("inkling"), &tools(), call)), [("search", "{\"n\": 1}")]);
    let got = read(&plugin, &config("inkling"), &tools(), "searching for it");
    assert_eq!(got.content, "searching for it");
}

#[test]
fn a_beam_call_without_parameters_may_end_with_its_header() {
    let text = " to=ping<|channel|>analysis <|constrain|>xml<|message|>";
    let got = read(&format_labs::plugin(), &config("beam"), &tools(), text);
    assert_eq!(calls(&got), [("ping", "{}")]);
}

#[test]
fn minicpmv_means_line_feeds_except_in_code_formulas_and_arguments() {
    let plugin = format_labs::plugin();
    let body = "First\\nsecond `a\\nb` $\\nu$ <tool_call>\n<function=search>\n<parameter=query>\nx\\ny\n</parameter>\n\
        </function>\n</tool_call>";
    let got = read(&plugin, &config("minicpmv"), &tools(), body);
    assert_eq!(got.content, "First\nsecond `a\\nb` $\\nu$");
    assert_eq!(calls(&got), [("search", "{\"query\": \"x\\\\ny\"}")]);
    // What can't be judged yet goes out at the end.
    assert_eq!(read(&plugin, &config("minicpmv"), &tools(), "a\\n`\\").content, "a\n`\\");
}

#[test]
fn a_quote_that_python_would_escape_does_not_end_a_string() {
    let plugin = format_labs::plugin();
    for (format, open, close) in
        [("lfm2", "<|tool_call_start|>[", "]<|tool_call_end|>"), ("olmo3", "<function_calls>\n", "\n</function_calls>")]
    {
        let body = format!("{open}search(query=\"say \"hi\" to 'her'\", n=1){close}");
        let got = read(&plugin, &config(format), &tools(), &body);
        assert_eq!(calls(&got), [("search", "{\"query\": \"say \\\"hi\\\" to 'her'\", \"n\": 1}")], "{format}");
    }
}

#[test]
fn a_closer_in_a_json_string_is_text_unless_the_string_was_forgotten() {
    let plugin = format_labs::plugin();
    let tools = json!([{"name": "f", "parameters": {"type": "object",
        "properties": {"o": {"type": "object"}, "p": {"type": "string"}}}}]);
    let formats = [
        ("mimo", ["<tool_call>\n<function=f>\n<parameter=o>", "</parameter>", "</function>", "\n</tool_call>"]),
        (
            "dots",
            [
                "<dots_function_call>\n<invoke name=\"f\"><parameter name=\"o\">",
                "</parameter>",
                "</invoke>",
                "</dots_function_call>",
            ],
        ),
        (
            "iquest_q1",
            ["<iquest_tool_call>f<arg_key>o</arg_key><arg_value>", "</arg_value>", "</iquest_tool_call>", ""],
        ),
    ];
    for (format, [open, close, after, end]) in formats {
        let object = format!("{{\"a\": \"x{close}{after}y\"}}");
        let got = read(&plugin, &config(format), &tools, &format!("{open}{object}{close}{after}{end}"));
        assert_eq!(calls(&got), [("f", format!("{{\"o\": {object}}}").as_str())], "{format}");
        // The string has no end: what can't stand in one ends the value, which is no JSON then.
        let got = read(&plugin, &config(format), &tools, &format!("{open}{{\"a\": \"x{close}\n{after}{end}"));
        assert_eq!(calls(&got), [("f", "{\"o\": \"{\\\"a\\\": \\\"x\"}")], "{format}");
    }
}
