//! JSON for templates: read without touching numbers, written as Python writes it.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Deepest nesting that is read or written.
const MAX_DEPTH: usize = 96;

/// A number that Rust's number types would change (`1.50`, `1e5`, forty digits): its text.
#[derive(Debug)]
struct Number(String);

impl Object for Number {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Turns JSON text into a template value. `text` is applied to every string and key.
pub(super) fn parse(raw: &str, text: &dyn Fn(&str) -> String) -> Result<Value, String> {
    parse_at(raw, text, 0)
}

fn parse_at(raw: &str, text: &dyn Fn(&str) -> String, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err(format!("is nested deeper than {MAX_DEPTH} levels"));
    }
    let raw = raw.trim_matches([' ', '\t', '\n', '\r']);
    let invalid = |error: serde_json::Error| format!("is not valid JSON: {error}");
    match raw.as_bytes().first() {
        Some(b'{') => {
            let entries = serde_json::Deserializer::from_str(raw).deserialize_map(Entries).map_err(invalid)?;
            let pairs: Result<Vec<(String, Value)>, String> = entries
                .into_iter()
                .map(|(key, value)| Ok((text(&key), parse_at(value.get(), text, depth + 1)?)))
                .collect();
            Ok(Value::from_pairs(pairs?))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(invalid)?;
            let items: Result<Vec<Value>, String> =
                items.into_iter().map(|item| parse_at(item.get(), text, depth + 1)).collect();
            Ok(Value::from(items?))
        }
        Some(b'"') => Ok(Value::from(text(&serde_json::from_str::<String>(raw).map_err(invalid)?))),
        Some(b't' | b'f') => Ok(Value::from(serde_json::from_str::<bool>(raw).map_err(invalid)?)),
        Some(b'n') => serde_json::from_str::<()>(raw).map(|()| Value::from(())).map_err(invalid),
        _ => number(raw),
    }
}

fn number(raw: &str) -> Result<Value, String> {
    serde_json::from_str::<serde::de::IgnoredAny>(raw).map_err(|error| format!("is not valid JSON: {error}"))?;
    if let Ok(integer) = raw.parse::<i64>()
        && integer.to_string() == raw
    {
        return Ok(Value::from(integer));
    }
    if let Ok(float) = raw.parse::<f64>()
        && Value::from(float).to_string() == raw
    {
        return Ok(Value::from(float));
    }
    Ok(Value::from_object(Number(raw.to_owned())))
}

/// The entries of an object in order, values unread.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// How `tojson` writes.
pub(super) struct Style<'a> {
    indent: Option<usize>,
    sort_keys: bool,
    ensure_ascii: bool,
    item: &'a str,
    key: &'a str,
}

impl<'a> Style<'a> {
    pub(super) fn new(
        indent: Option<usize>,
        sort_keys: bool,
        ensure_ascii: bool,
        separators: Option<&'a [String]>,
    ) -> Self {
        let (item, key) = match separators {
            Some([item, key]) => (item.as_str(), key.as_str()),
            _ if indent.is_some() => (",", ": "),
            _ => (", ", ": "),
        };
        Self { indent, sort_keys, ensure_ascii, item, key }
    }
}

/// `json.dumps`.
pub(super) fn dump(value: &Value, style: &Style<'_>) -> Result<String, Error> {
    let mut out = String::new();
    write(value, style, 0, &mut out)?;
    Ok(out)
}

fn write(value: &Value, style: &Style<'_>, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("tojson: nested deeper than {MAX_DEPTH} levels")));
    }
    if let Some(Number(text)) = value.downcast_object_ref() {
        out.push_str(text);
        return Ok(());
    }
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&value.to_string()),
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), style, out),
        ValueKind::Map => write_map(value, style, depth, out)?,
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                separate(style, depth + 1, at == 0, out);
                write(item, style, depth + 1, out)?;
            }
            close(style, depth, items.is_empty(), ']', out);
        }
        kind => {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("tojson: {kind} is not JSON serializable")));
        }
    }
    Ok(())
}

fn write_map(value: &Value, style: &Style<'_>, depth: usize, out: &mut String) -> Result<(), Error> {
    let mut keys: Vec<Value> = value.try_iter()?.collect();
    if style.sort_keys {
        keys.sort_by_key(ToString::to_string);
    }
    out.push('{');
    for (at, key) in keys.iter().enumerate() {
        separate(style, depth + 1, at == 0, out);
        let name = match key.kind() {
            ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
            ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
            ValueKind::None => "null".to_owned(),
            _ => key.to_string(),
        };
        write_string(&name, style, out);
        out.push_str(style.key);
        write(&value.get_item(key)?, style, depth + 1, out)?;
    }
    close(style, depth, keys.is_empty(), '}', out);
    Ok(())
}

fn separate(style: &Style<'_>, depth: usize, first: bool, out: &mut String) {
    if !first {
        out.push_str(style.item);
    }
    new_line(style, depth, out);
}

fn close(style: &Style<'_>, depth: usize, empty: bool, bracket: char, out: &mut String) {
    if !empty {
        new_line(style, depth, out);
    }
    out.push(bracket);
}

fn new_line(style: &Style<'_>, depth: usize, out: &mut String) {
    if let Some(width) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', width * depth));
    }
}

fn write_string(text: &str, style: &Style<'_>, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || style.ensure_ascii && !c.is_ascii() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String does not fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(raw: &str) -> String {
        let value = parse(raw, &str::to_owned).unwrap();
        dump(&value, &Style::new(None, false, false, None)).unwrap()
    }

    #[test]
    fn numbers_keep_their_digits() {
        let raw = r#"{"a": [1, -0, 0.5, 1.0, 1.50, 1e5, 123456789012345678901234567890, 9007199254740993]}"#;
        assert_eq!(round(raw), raw);
    }

    #[test]
    fn python_separators_order_and_unescaped_text() {
        assert_eq!(
            round(r#"{"z":"é<&>","a":{"k":[true,null,"\u0007\n"]},"e":{},"l":[]}"#),
            r#"{"z": "é<&>", "a": {"k": [true, null, "\u0007\n"]}, "e": {}, "l": []}"#
        );
    }

    #[test]
    fn indented_as_python_indents() {
        let value = parse(r#"{"b":[1,{}],"a":"é"}"#, &str::to_owned).unwrap();
        let text = dump(&value, &Style::new(Some(2), true, true, None)).unwrap();
        assert_eq!(text, "{\n  \"a\": \"\\u00e9\",\n  \"b\": [\n    1,\n    {}\n  ]\n}");
    }

    #[test]
    fn bad_json_is_refused() {
        for raw in ["", "{", "[1,]", "tru", "1.", "01", "{\"a\" 1}", "\"\\x\"", &"[".repeat(200)] {
            assert!(parse(raw, &str::to_owned).is_err(), "{raw}");
        }
    }
}
