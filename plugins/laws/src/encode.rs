//! Writers of the wires that several formats share, for the round-trip tests.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::talk::{Call, Talk};

/// Reasoning (if `close` is given), content and what `calls` writes.
pub fn turn(talk: &Talk, close: Option<&str>, calls: impl Fn(&[Call]) -> String) -> String {
    let reasoning = close.map(|close| format!("{}{close}", talk.reasoning)).unwrap_or_default();
    let calls = if talk.calls.is_empty() { String::new() } else { calls(&talk.calls) };
    format!("{reasoning}{}{calls}", talk.content)
}

/// Each call as an object between `open` and `close`.
pub fn objects(calls: &[Call], open: &str, close: &str, keys: [&str; 2]) -> String {
    calls.iter().map(|c| format!("{open}{}{close}", json!({keys[0]: c.name, keys[1]: c.arguments}))).collect()
}

/// All calls as one array between `open` and `close`; the brackets are not written.
pub fn array(calls: &[Call], open: &str, close: &str, keys: [&str; 2]) -> String {
    let list: Vec<String> = calls.iter().map(|c| json!({keys[0]: c.name, keys[1]: c.arguments}).to_string()).collect();
    format!("{open}{}{close}", list.join(", "))
}

/// Each call as a header that `head` writes, the arguments and `close`.
pub fn headed(calls: &[Call], head: impl Fn(usize, &str) -> String, close: &str) -> String {
    let one = |(n, c): (usize, &Call)| format!("{}{}{close}", head(n, &c.name), Value::Object(c.arguments.clone()));
    calls.iter().enumerate().map(one).collect()
}

/// A value as the text between two tags: strings raw, the rest JSON.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Each call as an element with one element for each parameter. `call` and `param` write opening tags.
pub fn elements(
    calls: &[Call],
    call: impl Fn(&str) -> String,
    param: impl Fn(&str, &Value) -> String,
    closers: [&str; 2],
) -> String {
    let mut out = String::new();
    for c in calls {
        out += &call(&c.name);
        for (key, value) in &c.arguments {
            let _ = write!(out, "{}{}{}", param(key, value), plain(value), closers[1]);
        }
        out += closers[0];
    }
    out
}

/// Qwen XML between `open` and `close`, one block for each call.
pub fn function_xml(calls: &[Call], open: &str, close: &str) -> String {
    let call = |name: &str| format!("{open}\n<function={name}>\n");
    let closer = format!("</function>\n{close}\n");
    elements(calls, call, |key, _| format!("<parameter={key}>\n"), [&closer, "\n</parameter>\n"])
}

/// Name, then keys and values, one block for each call; `nl` stands between the parts.
pub fn pairs(calls: &[Call], call: [&str; 2], nl: &str) -> String {
    tagged_pairs(calls, [call, ["<arg_key>", "</arg_key>"], ["<arg_value>", "</arg_value>"]], nl)
}

/// Each call as a name and pairs of key and value, in the tags of calls, of keys and of values.
pub fn tagged_pairs(calls: &[Call], [call, key, value]: [[&str; 2]; 3], nl: &str) -> String {
    let mut out = String::new();
    for c in calls {
        let _ = write!(out, "{}{}{nl}", call[0], c.name);
        for (name, argument) in &c.arguments {
            let argument = plain(argument);
            let _ = write!(out, "{}{name}{}{nl}{}{argument}{}{nl}", key[0], key[1], value[0], value[1]);
        }
        out += call[1];
    }
    out
}

/// A list of Python calls, without its brackets. JSON's literals are Python's or are read as such.
pub fn python(calls: &[Call], separator: &str) -> String {
    let one = |c: &Call| {
        let args: Vec<String> = c.arguments.iter().map(|(k, v)| format!("{k}={v}")).collect();
        format!("{}({})", c.name, args.join(", "))
    };
    calls.iter().map(one).collect::<Vec<_>>().join(separator)
}
