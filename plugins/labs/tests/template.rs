//! Declared formats: the worked example of the catalogue (Beam, as its tokenizer declares it) and each content parser.

use serde_json::{Value, json};
use sluicegate_laws::one::{calls, read};
use sluicegate_sdk::config::ParserConfig;

fn config(template: &Value) -> ParserConfig {
    ParserConfig {
        format: "response_template".to_owned(),
        options: json!({ "response_template": template }).to_string(),
        ..ParserConfig::default()
    }
}

fn tools() -> Value {
    json!([
        {"name": "get_weather", "parameters": {"type": "object", "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"},
        }}},
        {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    ])
}

fn beam() -> Value {
    json!({
        "version": 1,
        "start_anchor": "<|start|>assistant",
        "fields": {
            "thinking": {"open": "<|channel|>analysis<|message|>", "close": "<|end|><|start|>assistant"},
            "content": {"open": "<|channel|>final<|message|>", "close": ["<|return|>", "<|end|>", "<|call|>"]},
            "tool_calls": {
                "open_pattern": r" to=(?P<name>[\w.]+)<\|channel\|>analysis <\|constrain\|>xml<\|message\|>",
                "close": ["<|end|><|start|>assistant", "<|call|>"],
                "repeats": true,
                "content": "xml-inline",
                "content_args": {
                    "tag_pattern": r#"<rfl:parameter name="(?P<key>[^"]+)">\n(?P<value>.*?)\n</rfl:parameter>"#,
                },
                "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
            },
        },
    })
}

#[test]
fn beam_as_declared() {
    let text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=get_weather<|channel|>analysis \
        <|constrain|>xml<|message|><rfl:parameter name=\"city\">\n3\n</rfl:parameter><rfl:parameter name=\"days\">\n3\n\
        </rfl:parameter><|end|><|start|>assistant to=ping<|channel|>analysis <|constrain|>xml<|message|><|call|>";
    let got = read(&format_labs::plugin(), &config(&beam()), &tools(), text);
    assert_eq!((got.reasoning.as_str(), got.content.as_str()), ("Hm.", ""));
    assert_eq!(calls(&got), [("get_weather", r#"{"city": "3", "days": 3}"#), ("ping", "{}")]);
    // Nobody declared tools: the same text is content.
    let got = read(&format_labs::plugin(), &config(&beam()), &Value::Null, " to=ping<|channel|>analysis");
    assert_eq!((got.content.as_str(), got.calls.len()), (" to=ping<|channel|>analysis", 0));
}

#[test]
fn the_prompt_may_open_a_field() {
    let tail = "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>analysis<|message|>".to_owned();
    let inside = ParserConfig { prompt_tail: tail, ..config(&beam()) };
    let text = "Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>";
    let got = read(&format_labs::plugin(), &inside, &tools(), text);
    assert_eq!((got.reasoning.as_str(), got.content.as_str()), ("Hm.", "Yes."));
}

#[test]
fn json_calls_keep_their_digits() {
    let template = json!({"version": 1, "fields": {
        "content": {},
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "content": "json", "repeats": true,
            "transform": {"type": "function", "function": "{content}"}},
    }});
    let text = "<think>a</think>b<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"days\": 18446744073709551617}}\
        </tool_call>\n<tool_call>\n{\"name\": \"ping\", \"arguments\": null}</tool_call>";
    let got = read(&format_labs::plugin(), &config(&template), &tools(), text);
    assert_eq!((got.reasoning.as_str(), got.content.as_str()), ("a", "b"));
    assert_eq!(calls(&got), [("get_weather", r#"{"days": 18446744073709551617}"#), ("ping", "{}")]);
    let got = read(&format_labs::plugin(), &config(&template), &tools(), "<tool_call>{broken</tool_call>");
    assert_eq!((got.malformed.as_str(), got.calls.len()), ("{broken", 0));
}

#[test]
fn lists_and_lines() {
    let template = json!({"version": 1, "fields": {
        "tool_calls": {"open": "[CALLS]", "close": "[/CALLS]", "content": "json",
            "transform_each": {"function": {"name": "ping", "arguments": "{content}"}}},
    }});
    let got = read(&format_labs::plugin(), &config(&template), &tools(), "[CALLS][{\"a\": 1.0}, {}][/CALLS]");
    assert_eq!(calls(&got), [("ping", r#"{"a": 1.0}"#), ("ping", "{}")]);
    let template = json!({"version": 1, "fields": {
        "tool_calls": {"open_pattern": "CALL (?P<name>\\w+)\n", "close": "END", "content": "kv-lines",
            "transform": {"name": "{name}", "arguments": "{content}"}},
    }});
    let got = read(&format_labs::plugin(), &config(&template), &tools(), "CALL get_weather\ncity: Oslo\ndays: 3\nEND");
    assert_eq!(calls(&got), [("get_weather", r#"{"city": "Oslo", "days": 3}"#)]);
}

#[test]
fn what_is_wrong_is_said() {
    use sluicegate_sdk::event::{Event, Step};
    let wrong = [
        (json!({"version": 2, "fields": {}}), "version 2 is not supported"),
        (json!({"fields": {"content": {}, "thinking": {}}}), "more than one field has no opener"),
        (json!({"fields": {"tool_calls": {"open_pattern": ".*x"}}}), "does not begin with a literal"),
        (json!({"fields": {"tool_calls": {"open": "x", "content": "yaml"}}}), "\"yaml\" is not one of"),
    ];
    for (template, message) in wrong {
        let mut parser = format_labs::plugin().parser(&config(&template), None);
        let Step::Events(events) = parser.push("text") else { panic!("nothing came") };
        let said = |e: &Event| matches!(e, Event::Note(note) if note.contains(message));
        assert!(events.iter().any(said), "{events:?}");
        assert!(events.contains(&Event::Content("text".to_owned())), "{events:?}");
    }
}
