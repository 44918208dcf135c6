//! What a field's text means: content parsers and transforms, all on JSON text, so that digits stay as written.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::spec::{Content, Field};
use crate::coerce;
use crate::json;
use crate::tools::{JsonTypes, ToolSet};

/// A call as a field gave it: name, arguments as JSON text, id.
pub(super) type Call = (String, String, Option<String>);

/// The field's value as JSON text; `None` if its text is not what the declaration says.
pub(super) fn parse(field: &Field, text: &str, tool: Option<&str>, tools: &ToolSet) -> Option<String> {
    let typed = |key: &str, value: &str| coerce::coerce(value, tools.accepts(tool.unwrap_or_default(), key));
    let object = |pairs: &mut dyn Iterator<Item = (String, String)>| {
        let mut seen: Vec<String> = Vec::new();
        let mut out = Vec::new();
        for (key, value) in pairs {
            if !seen.contains(&key) {
                out.push(format!("{}: {value}", json::quote(&key)));
                seen.push(key);
            }
        }
        format!("{{{}}}", out.join(", "))
    };
    let scalar = |types| Some(coerce::coerce(text, types)).filter(|json| !json.starts_with('"'));
    match &field.content {
        Content::Text => Some(json::quote(text)),
        Content::Int => scalar(JsonTypes::INTEGER),
        Content::Float => scalar(JsonTypes::NUMBER),
        Content::Bool => scalar(JsonTypes::BOOLEAN),
        Content::Json(_) if json::is_value(text.trim()) => Some(text.trim().to_owned()),
        Content::Json(lenient) => lenient.then(|| json::quote(text)),
        Content::Tags(pattern) => {
            let group = |c: &regex_lite::Captures<'_>, name: &str| c.name(name).map_or("", |m| m.as_str()).to_owned();
            let mut pairs = pattern.captures_iter(text).map(|c| {
                let (key, value) = (group(&c, "key"), group(&c, "value"));
                let value = typed(&key, &value);
                (key, value)
            });
            Some(object(&mut pairs))
        }
        Content::Lines(line, separator) => {
            let lines = text.split(line.as_str()).filter_map(|l| l.split_once(separator.as_str()));
            Some(object(&mut lines.map(|(k, v)| (k.trim().to_owned(), typed(k.trim(), v.trim())))))
        }
    }
}

/// The calls of a field whose value is `content`; `None` if they are none.
pub(super) fn calls(field: &Field, content: &str, captures: &BTreeMap<String, String>) -> Option<Vec<Call>> {
    let elements: Vec<&RawValue> = match field.each || content.starts_with('[') {
        true => serde_json::from_str(content).ok()?,
        false => vec![serde_json::from_str(content).ok()?],
    };
    let one = |element: &&RawValue| {
        let text = match &field.transform {
            Some(transform) => render(transform, element.get(), captures),
            None => element.get().to_owned(),
        };
        call(&text)
    };
    elements.iter().map(one).collect()
}

/// The transform with its placeholders replaced, as JSON text. Only strings that are a placeholder as a whole count.
fn render(transform: &Value, content: &str, captures: &BTreeMap<String, String>) -> String {
    match transform {
        Value::String(text) => match text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            Some("content") => content.to_owned(),
            Some(name) if captures.contains_key(name) => json::quote(&captures[name]),
            _ => json::quote(text),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|v| render(v, content, captures)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(k, v)| format!("{}: {}", json::quote(k), render(v, content, captures)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// `{"name", "arguments"}`, possibly inside `{"function": ...}`.
fn call(text: &str) -> Option<Call> {
    let outer: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let inner: Option<BTreeMap<String, &RawValue>> =
        outer.get("function").and_then(|f| serde_json::from_str(f.get()).ok());
    let id = outer.get("id").and_then(|v| json::decode(v.get()));
    let part = inner.unwrap_or_else(|| outer.clone());
    let name = json::decode(part.get("name")?.get()).filter(|n| !n.is_empty())?;
    let arguments = match part.get("arguments").or_else(|| part.get("parameters")).map(|v| v.get()) {
        None | Some("null") => "{}".to_owned(),
        Some(text) if text.starts_with('"') => json::object_text(json::decode(text)?.trim())?,
        Some(text) => json::object_text(text)?,
    };
    Some((name, arguments, id))
}
