//! Grammars of parameters that are trees of elements.

use std::collections::BTreeMap;

use serde_json::Value;

use super::join;
use super::lark::{Lark, either, optional, quote};
use super::schema::Schema;
use crate::tags::{Brackets, schema_types};
use crate::tools::JsonTypes;

struct Writer<'a> {
    lark: &'a mut Lark,
    brackets: Brackets,
    schema: &'a Schema,
    /// Rules of what references point to, by element.
    known: BTreeMap<(String, String), String>,
}

/// The element of a parameter, whose schema is `part`.
pub(super) fn element(lark: &mut Lark, brackets: Brackets, schema: &Schema, name: &str, part: &Value) -> String {
    Writer { lark, brackets, schema, known: BTreeMap::new() }.element(name, part)
}

impl Writer<'_> {
    fn element(&mut self, name: &str, part: &Value) -> String {
        let Some(target) = part.get("$ref").and_then(Value::as_str) else { return self.inline(name, part) };
        let key = (name.to_owned(), target.to_owned());
        if let Some(rule) = self.known.get(&key) {
            return rule.clone();
        }
        let rule = self.lark.forward();
        self.known.insert(key, rule.clone());
        let schema = self.schema;
        let body = self.inline(name, schema.resolve(part));
        self.lark.write(&rule, &body);
        rule
    }

    fn inline(&mut self, name: &str, part: &Value) -> String {
        let b = self.brackets;
        let open = quote(&format!("{}{name}{}", b.open, b.end));
        let end = quote(&format!("{}{name}{}", b.close, b.end));
        let value = self.value(part, &end);
        self.lark.rule(&join(&[&open, &value, "SPACE?"]))
    }

    /// What stands in an element, and its end.
    fn value(&mut self, part: &Value, end: &str) -> String {
        if let Some(values) = self.schema.listed(part) {
            let texts = values.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
            return format!("{} {end}", either(texts.map(|t| quote(&t)).collect()));
        }
        let types = schema_types(part, &self.schema.root);
        let object = types.accepts(JsonTypes::OBJECT) || (types.is_empty() && part.get("properties").is_some());
        if types.accepts(JsonTypes::STRING) || (types.is_empty() && !object) {
            let never = [quote(self.brackets.open), quote(self.brackets.close)];
            return self.lark.text_until(&never, end);
        }
        if types.accepts(JsonTypes::ARRAY) {
            let items = part.get("items").cloned().unwrap_or_else(|| serde_json::json!({}));
            let item = self.element("item", &items);
            return format!("SPACE? ({item})* {end}");
        }
        if object {
            let required = part.get("required").and_then(Value::as_array);
            let required = |name: &str| required.is_some_and(|r| r.iter().any(|v| v.as_str() == Some(name)));
            let mut parts = vec!["SPACE?".to_owned()];
            for (name, property) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let one = self.element(name, property);
                parts.push(if required(name) { one } else { optional(&one) });
            }
            parts.push(end.to_owned());
            return parts.join(" ");
        }
        join(&["SPACE?", &self.schema.json(part), "SPACE?", end])
    }
}
