//! Values in languages that are not JSON: Python's literals, Gemma's braces.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::lark::{Lark, either, optional, quote};
use super::schema::Schema;
use crate::tags::schema_types;
use crate::tools::JsonTypes;

/// Text in either quote, with the escapes that JSON and Python share.
const PYTHON_TEXT: &str = r#"/"([^"\\\n]|\\(["'\\nrtbf]|u[0-9a-cA-CefEF][0-9a-fA-F]{3}))*"|'([^'\\\n]|\\(["'\\nrtbf]|u[0-9a-cA-CefEF][0-9a-fA-F]{3}))*'/"#;
const INTEGER: &str = "/-?(0|[1-9][0-9]{0,30})/";
const NUMBER: &str = "/-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?/";
const COMMA: &str = "/, ?/";
/// A key where the schema names none.
const ANY_KEY: &str = "/[A-Za-z_][A-Za-z0-9_]{0,63}/";
/// Bounds that only JSON's compiler knows to keep.
const BOUNDS: &[&str] = &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];

/// How values are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Style {
    /// Python's literals; JSON's words for true, false and null are read too.
    Python,
    /// Bare keys, text between these.
    Brace(&'static str),
}

/// A writer of values.
pub(super) struct Values<'a> {
    pub(super) lark: &'a mut Lark,
    pub(super) style: Style,
    pub(super) schema: &'a Schema,
    /// Rules of what references point to.
    known: BTreeMap<String, String>,
    any: Option<String>,
}

impl<'a> Values<'a> {
    pub(super) fn new(lark: &'a mut Lark, style: Style, schema: &'a Schema) -> Values<'a> {
        Values { lark, style, schema, known: BTreeMap::new(), any: None }
    }

    /// A value of the schema `part`.
    pub(super) fn value(&mut self, part: &Value) -> String {
        if let Some(target) = part.get("$ref").and_then(Value::as_str) {
            if let Some(rule) = self.known.get(target) {
                return rule.clone();
            }
            let rule = self.lark.forward();
            self.known.insert(target.to_owned(), rule.clone());
            let schema = self.schema;
            let body = self.inline(schema.resolve(part));
            self.lark.write(&rule, &body);
            return rule;
        }
        let body = self.inline(part);
        self.lark.rule(&body)
    }

    fn inline(&mut self, part: &Value) -> String {
        if let Some(values) = self.schema.listed(part) {
            return either(values.iter().map(|v| self.literal(v)).collect());
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(parts) = part.get(key).and_then(Value::as_array).filter(|p| !p.is_empty()) {
                return either(parts.iter().map(|p| self.value(p)).collect());
            }
        }
        let mut types = schema_types(part, &self.schema.root);
        if types.is_empty() {
            match part.get("properties") {
                Some(_) => types = JsonTypes::OBJECT,
                None => return self.any(),
            }
        }
        let mut choices = Vec::new();
        let mut add = |bit: JsonTypes, make: &mut dyn FnMut() -> String| {
            if types.accepts(bit) {
                choices.push(make());
            }
        };
        add(JsonTypes::STRING, &mut || self.text());
        add(JsonTypes::BOOLEAN, &mut || self.word(&["True", "False", "true", "false"]));
        add(JsonTypes::NULL, &mut || self.word(&["None", "null"]));
        add(JsonTypes::ARRAY, &mut || self.array(part));
        add(JsonTypes::OBJECT, &mut || self.object(part));
        let bounded = BOUNDS.iter().any(|key| part.get(key).is_some());
        match (types.accepts(JsonTypes::NUMBER), types.accepts(JsonTypes::INTEGER)) {
            (true, _) if bounded => choices.push(self.schema.json_of(part, &["number"])),
            (false, true) if bounded => choices.push(self.schema.json_of(part, &["integer"])),
            (true, _) => choices.push(NUMBER.to_owned()),
            (false, true) => choices.push(INTEGER.to_owned()),
            (false, false) => {}
        }
        either(choices)
    }

    /// The words of the style, out of those in Python's spelling and then in JSON's.
    fn word(&self, words: &[&str]) -> String {
        let json = |w: &&&str| w.starts_with(|c: char| c.is_ascii_lowercase());
        let fits = |w: &&&str| matches!(self.style, Style::Python) || json(w);
        either(words.iter().filter(fits).map(|w| quote(w)).collect())
    }

    fn text(&mut self) -> String {
        match self.style {
            Style::Python => self.lark.terminal(PYTHON_TEXT),
            Style::Brace(mark) => {
                let text = self.lark.text_until(&[quote(mark)], &quote(mark));
                self.lark.terminal(&format!("{} {text}", quote(mark)))
            }
        }
    }

    fn array(&mut self, part: &Value) -> String {
        let items = part.get("items").cloned().unwrap_or_else(|| json!({}));
        let item = self.value(&items);
        let row = format!("{item} ({COMMA} {item})*");
        let some = part.get("minItems").and_then(Value::as_u64).is_some_and(|n| n > 0);
        format!("\"[\" {} \"]\"", if some { row } else { optional(&row) })
    }

    fn object(&mut self, part: &Value) -> String {
        let Some(properties) = part.get("properties").and_then(Value::as_object) else {
            let value = self.any();
            let key = match self.style {
                Style::Python => format!("{} {}", self.lark.terminal(PYTHON_TEXT), "/: ?/"),
                Style::Brace(_) => format!("{ANY_KEY} \":\""),
            };
            return format!("\"{{\" ({key} {value} ({COMMA} {key} {value})*)? \"}}\"");
        };
        let required = part.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut fields = Vec::new();
        for (name, property) in properties {
            let key = match self.style {
                Style::Python => {
                    let single = format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"));
                    format!("({} | {}) /: ?/", quote(&crate::json::quote(name)), quote(&single))
                }
                Style::Brace(_) => quote(&format!("{name}:")),
            };
            let value = self.value(property);
            fields.push((format!("{key} {value}"), required.iter().any(|r| r.as_str() == Some(name))));
        }
        format!("\"{{\" {} \"}}\"", fields_in_order(self.lark, &fields))
    }

    /// Any value.
    fn any(&mut self) -> String {
        if let Some(rule) = &self.any {
            return rule.clone();
        }
        let rule = self.lark.forward();
        self.any = Some(rule.clone());
        let all = ["string", "boolean", "null", "number", "array", "object"];
        let body = self.inline(&json!({"type": all}));
        self.lark.write(&rule, &body);
        rule
    }

    /// A value that the schema lists.
    fn literal(&self, value: &Value) -> String {
        match (self.style, value) {
            (Style::Python, Value::String(text)) => {
                let single = format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"));
                format!("({} | {})", quote(&crate::json::quote(text)), quote(&single))
            }
            (Style::Python, Value::Bool(true)) => self.word(&["True", "true"]),
            (Style::Python, Value::Bool(false)) => self.word(&["False", "false"]),
            (Style::Python, Value::Null) => self.word(&["None", "null"]),
            (Style::Brace(mark), Value::String(text)) => quote(&format!("{mark}{text}{mark}")),
            (Style::Brace(mark), other) => quote(&super::brace::literal(other, mark)),
            (_, other) => quote(&other.to_string()),
        }
    }
}

/// Fields in their order, with commas between those that are there; `true` marks those that must be.
pub(super) fn fields_in_order(lark: &mut Lark, fields: &[(String, bool)]) -> String {
    // What may follow once a field is written, and what may stand where none is.
    let mut after = String::new();
    let mut first = String::new();
    let mut may_be_empty = true;
    for (field, required) in fields.iter().rev() {
        let tail = after.clone();
        let here = [field.as_str(), &tail].join(" ").trim_end().to_owned();
        first = match (*required, first.is_empty()) {
            (true, _) | (false, true) => here,
            (false, false) => format!("({here} | {first})"),
        };
        may_be_empty &= !required;
        let with_comma = format!("{COMMA} {field}");
        let next = if *required { with_comma } else { optional(&with_comma) };
        after = lark.rule(format!("{next} {tail}").trim_end());
        first = lark.rule(&first);
    }
    if may_be_empty { optional(&first) } else { first }
}
