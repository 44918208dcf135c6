//! Digests a request's tools once, so that plugins need no JSON Schema reader.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::bindings::types as wit;
use crate::chat;

/// The tools of one request, digested. Equal tools have equal keys, and streams of one store share the guest's copy.
#[derive(Debug)]
pub struct ToolSet {
    pub(super) key: [u8; 32],
    pub(super) tools: Vec<wit::Tool>,
}

impl ToolSet {
    /// Digests tools. Schemas that make no sense yield parameters of unknown type, never an error: the client's
    /// schema was validated where the request was read.
    #[must_use]
    pub fn new(tools: &[chat::Tool]) -> Arc<Self> {
        let mut hash = Sha256::new();
        for tool in tools {
            let schema = tool.parameters.as_deref().map_or("", |raw| raw.get());
            for part in [tool.name.as_str(), tool.description.as_deref().unwrap_or(""), schema] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
            hash.update([u8::from(tool.strict), u8::from(tool.description.is_some())]);
        }
        Arc::new(Self { key: hash.finalize().into(), tools: tools.iter().map(digest).collect() })
    }

    /// Number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is no tool.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

fn digest(tool: &chat::Tool) -> wit::Tool {
    let schema = tool.parameters.as_deref().map_or("", |raw| raw.get());
    let parsed: Value = serde_json::from_str(schema).unwrap_or(Value::Null);
    wit::Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        params: params(&parsed),
        schema: schema.to_owned(),
        strict: tool.strict,
    }
}

/// Deepest nesting of unions and references that is followed; schemas may refer to themselves.
const MAX_DEPTH: u32 = 16;
/// Most subschemas of one tool that are searched for properties: references can make a small schema endlessly wide.
const MAX_BRANCHES: u32 = 256;
/// Most subschemas of one tool that are asked for their types.
const MAX_VISITS: u32 = 20_000;

/// Top-level properties in schema order: the schema's own, then those of its unions' branches.
fn params(root: &Value) -> Vec<wit::Param> {
    let mut reader = Reader { root, left: MAX_BRANCHES, found: Map::new(), required: HashSet::new() };
    reader.collect(root, 0, true);
    let found = std::mem::take(&mut reader.found);
    reader.left = MAX_VISITS;
    found
        .into_iter()
        .map(|(name, schema)| wit::Param {
            accepts: reader.accepts(&schema, 0),
            required: reader.required.contains(&name),
            name,
        })
        .collect()
}

/// Reads one tool's schema.
struct Reader<'a> {
    root: &'a Value,
    left: u32,
    found: Map<String, Value>,
    required: HashSet<String>,
}

impl Reader<'_> {
    /// Whether one more subschema may be looked at.
    fn visit(&mut self, depth: u32) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0 && depth <= MAX_DEPTH
    }

    /// `must` is false inside `anyOf` and `oneOf`: what one branch requires, another may not.
    fn collect(&mut self, schema: &Value, depth: u32, must: bool) {
        let Value::Object(object) = schema else { return };
        if !self.visit(depth) {
            return;
        }
        if let Some(Value::Object(properties)) = object.get("properties") {
            for (name, schema) in properties {
                match self.found.get_mut(name) {
                    None => drop(self.found.insert(name.clone(), schema.clone())),
                    Some(earlier) if earlier == schema => {}
                    // The same property in several branches: either shape.
                    Some(earlier) => *earlier = serde_json::json!({ "anyOf": [earlier.take(), schema] }),
                }
            }
        }
        if let (true, Some(Value::Array(names))) = (must, object.get("required")) {
            self.required.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        if let Some(target) = resolve(self.root, object) {
            self.collect(target, depth + 1, must);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for branch in object.get(key).and_then(Value::as_array).into_iter().flatten() {
                self.collect(branch, depth + 1, must && key == "allOf");
            }
        }
    }

    /// The JSON types that a schema accepts; empty when it does not say.
    fn accepts(&mut self, schema: &Value, depth: u32) -> wit::JsonTypes {
        let none = wit::JsonTypes::empty();
        let Value::Object(object) = schema else { return none };
        if !self.visit(depth) {
            return none;
        }
        let mut stated = none;
        let mut narrow = |types: wit::JsonTypes| {
            // Keywords side by side must all hold; when they contradict each other, the later one is the finer.
            if types != none {
                stated = if stated.intersects(types) { stated & types } else { types };
            }
        };
        narrow(match object.get("type") {
            Some(Value::String(name)) => named(name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).fold(none, |all, name| all | named(name))
            }
            // Some clients put a schema where its name belongs.
            Some(inner @ Value::Object(_)) => self.accepts(inner, depth + 1),
            _ => none,
        });
        if let Some(target) = resolve(self.root, object) {
            narrow(self.accepts(target, depth + 1));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = object.get(key) {
                let branches: Vec<_> = branches.iter().map(|branch| self.accepts(branch, depth + 1)).collect();
                // One branch that accepts anything makes the union say nothing.
                if branches.iter().all(|types| *types != none) {
                    narrow(branches.into_iter().fold(none, |all, types| all | types));
                }
            }
        }
        for branch in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            narrow(self.accepts(branch, depth + 1));
        }
        let values = object.get("enum").and_then(Value::as_array).into_iter().flatten().chain(object.get("const"));
        narrow(values.fold(none, |all, value| all | type_of(value)));
        if stated == none {
            stated = implied(object);
        }
        if stated != none && object.get("nullable") == Some(&Value::Bool(true)) {
            stated |= wit::JsonTypes::NULL;
        }
        stated
    }
}

/// The target of a local `$ref` (`#`, `#/$defs/X`, `#/definitions/X`, any JSON pointer).
fn resolve<'a>(root: &'a Value, object: &Map<String, Value>) -> Option<&'a Value> {
    let pointer = object.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

/// What keywords of one type imply when no type is stated.
fn implied(object: &Map<String, Value>) -> wit::JsonTypes {
    if object.contains_key("properties") || object.contains_key("additionalProperties") {
        wit::JsonTypes::OBJECT
    } else if object.contains_key("items") || object.contains_key("prefixItems") {
        wit::JsonTypes::ARRAY
    } else if object.contains_key("pattern") || object.contains_key("minLength") || object.contains_key("maxLength") {
        wit::JsonTypes::STRING
    } else {
        wit::JsonTypes::empty()
    }
}

/// A type name, aliases that clients really send included; unknown names say nothing.
fn named(name: &str) -> wit::JsonTypes {
    let name = name.trim().to_ascii_lowercase();
    // "list[str]", "array<int>", "varchar(20)".
    let base = name.split(['[', '<', '(']).next().unwrap_or_default().trim();
    match base {
        "string" | "str" | "text" | "varchar" | "char" | "enum" | "uuid" | "date" | "datetime" | "time" => {
            wit::JsonTypes::STRING
        }
        "integer" | "int" | "bigint" | "smallint" | "long" | "short" | "uint" | "unsigned" => wit::JsonTypes::INTEGER,
        "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64" => wit::JsonTypes::INTEGER,
        // Every integer is a number.
        "number" | "float" | "float32" | "float64" | "double" | "decimal" | "real" | "numeric" | "num" => {
            wit::JsonTypes::NUMBER
        }
        "boolean" | "bool" => wit::JsonTypes::BOOLEAN,
        "array" | "list" | "arr" | "tuple" | "set" => wit::JsonTypes::ARRAY,
        "object" | "dict" | "map" => wit::JsonTypes::OBJECT,
        "null" | "none" => wit::JsonTypes::NULL,
        _ => wit::JsonTypes::empty(),
    }
}

fn type_of(value: &Value) -> wit::JsonTypes {
    match value {
        Value::Null => wit::JsonTypes::NULL,
        Value::Bool(_) => wit::JsonTypes::BOOLEAN,
        Value::Number(number) if number.is_i64() || number.is_u64() => wit::JsonTypes::INTEGER,
        Value::Number(_) => wit::JsonTypes::NUMBER,
        Value::String(_) => wit::JsonTypes::STRING,
        Value::Array(_) => wit::JsonTypes::ARRAY,
        Value::Object(_) => wit::JsonTypes::OBJECT,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: &Value) -> chat::Tool {
        let parameters = serde_json::value::to_raw_value(schema).ok();
        chat::Tool { name: name.to_owned(), description: None, parameters, strict: false }
    }

    /// Types of the only property, by name.
    fn types(schema: &Value) -> Vec<&'static str> {
        let root = json!({
            "properties": { "p": schema },
            "$defs": { "int": { "type": "integer" }, "self": { "$ref": "#/$defs/self" } },
        });
        let types = params(&root)[0].accepts;
        let names = [
            (wit::JsonTypes::NULL, "null"),
            (wit::JsonTypes::BOOLEAN, "boolean"),
            (wit::JsonTypes::INTEGER, "integer"),
            (wit::JsonTypes::NUMBER, "number"),
            (wit::JsonTypes::STRING, "string"),
            (wit::JsonTypes::ARRAY, "array"),
            (wit::JsonTypes::OBJECT, "object"),
        ];
        names.into_iter().filter(|(flag, _)| types.contains(*flag)).map(|(_, name)| name).collect()
    }

    #[test]
    fn a_schema_says_which_types_a_parameter_accepts() {
        for (schema, expected) in [
            (json!({ "type": "string" }), vec!["string"]),
            (json!({ "type": "INT" }), vec!["integer"]),
            (json!({ "type": "list[str]" }), vec!["array"]),
            (json!({ "type": "varchar(20)" }), vec!["string"]),
            (json!({ "type": ["integer", "null"] }), vec!["null", "integer"]),
            (json!({ "type": "float", "nullable": true }), vec!["null", "number"]),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "object" }] }), vec!["string", "object"]),
            (json!({ "oneOf": [{ "$ref": "#/$defs/int" }, { "type": "null" }] }), vec!["null", "integer"]),
            (json!({ "allOf": [{ "type": ["string", "integer"] }, { "type": ["integer", "null"] }] }), vec!["integer"]),
            (json!({ "anyOf": [{ "type": "string" }, {}] }), vec![]),
            (json!({ "enum": ["a", 1, null] }), vec!["null", "integer", "string"]),
            (json!({ "const": 1.5 }), vec!["number"]),
            (json!({ "type": "integer", "enum": [1, 2] }), vec!["integer"]),
            (json!({ "items": {} }), vec!["array"]),
            (json!({ "properties": {} }), vec!["object"]),
            (json!({ "$ref": "#/$defs/self" }), vec![]),
            (json!({ "$ref": "#/nowhere" }), vec![]),
            (json!({ "type": "banana" }), vec![]),
            (json!({}), vec![]),
            (json!(true), vec![]),
        ] {
            assert_eq!(types(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn properties_come_in_schema_order_from_all_branches() {
        let root = json!({
            "properties": { "z": { "type": "string" }, "a": { "type": "integer" } },
            "required": ["a"],
            "allOf": [{ "properties": { "m": {} }, "required": ["m"] }],
            "anyOf": [{ "properties": { "z": { "type": "null" }, "q": {} }, "required": ["q"] }],
        });
        let found = params(&root);
        let names: Vec<_> = found.iter().map(|param| (param.name.as_str(), param.required)).collect();
        assert_eq!(names, [("z", false), ("a", true), ("m", true), ("q", false)]);
        assert_eq!(found[0].accepts, wit::JsonTypes::STRING | wit::JsonTypes::NULL);
    }

    #[test]
    fn a_schema_that_refers_to_itself_everywhere_is_read_in_bounded_time() {
        let me = json!({ "$ref": "#" });
        let root =
            json!({ "properties": { "p": me, "q": { "type": "string" } }, "allOf": [me, me, me], "anyOf": [me, me] });
        let begun = std::time::Instant::now();
        let names: Vec<_> = params(&root).into_iter().map(|param| param.name).collect();
        assert_eq!(names, ["p", "q"]);
        assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    #[test]
    fn equal_tools_have_equal_keys_and_others_do_not() {
        let (a, b) = (tool("f", &json!({ "type": "object" })), tool("g", &json!({ "type": "object" })));
        let key = |tools: &[chat::Tool]| ToolSet::new(tools).key;
        assert_eq!(key(&[a.clone(), b.clone()]), key(&[a.clone(), b.clone()]));
        let described = chat::Tool { description: Some(String::new()), ..a.clone() };
        let strict = chat::Tool { strict: true, ..a.clone() };
        let keys = [
            key(&[]),
            key(std::slice::from_ref(&a)),
            key(&[b.clone(), a.clone()]),
            key(&[a, b]),
            key(&[described]),
            key(&[strict]),
        ];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    }
}
