//! Digests a request's tools once, so that plugins need no JSON Schema reader.

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

/// Top-level properties in schema order: the schema's own, then those of its unions' branches.
fn params(root: &Value) -> Vec<wit::Param> {
    let mut found = Map::new();
    let mut required = Vec::new();
    collect(root, root, 0, true, &mut found, &mut required);
    found
        .into_iter()
        .map(|(name, schema)| wit::Param {
            accepts: accepts(root, &schema, 0),
            required: required.contains(&name),
            name,
        })
        .collect()
}

/// `must` is false inside `anyOf` and `oneOf`: what one branch requires, another may not.
fn collect(
    root: &Value,
    schema: &Value,
    depth: u32,
    must: bool,
    found: &mut Map<String, Value>,
    required: &mut Vec<String>,
) {
    let Value::Object(object) = schema else { return };
    if depth > MAX_DEPTH {
        return;
    }
    if let Some(Value::Object(properties)) = object.get("properties") {
        for (name, schema) in properties {
            match found.get_mut(name) {
                None => drop(found.insert(name.clone(), schema.clone())),
                // The same property in several branches: either shape.
                Some(earlier) => *earlier = serde_json::json!({ "anyOf": [earlier.take(), schema] }),
            }
        }
    }
    if let (true, Some(Value::Array(names))) = (must, object.get("required")) {
        required.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    if let Some(target) = resolve(root, object) {
        collect(root, target, depth + 1, must, found, required);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for branch in object.get(key).and_then(Value::as_array).into_iter().flatten() {
            collect(root, branch, depth + 1, must && key == "allOf", found, required);
        }
    }
}

/// The target of a local `$ref` (`#`, `#/$defs/X`, `#/definitions/X`, any JSON pointer).
fn resolve<'a>(root: &'a Value, object: &Map<String, Value>) -> Option<&'a Value> {
    let pointer = object.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

/// The JSON types that a schema accepts; empty when it does not say.
fn accepts(root: &Value, schema: &Value, depth: u32) -> wit::JsonTypes {
    let none = wit::JsonTypes::empty();
    let Value::Object(object) = schema else { return none };
    if depth > MAX_DEPTH {
        return none;
    }
    let mut stated: Option<wit::JsonTypes> = None;
    let mut narrow = |types: wit::JsonTypes| {
        if types != none {
            // Keywords side by side must all hold; when they contradict each other, the later one is the finer.
            stated = Some(match stated {
                Some(earlier) if earlier.intersects(types) => earlier & types,
                _ => types,
            });
        }
    };
    narrow(match object.get("type") {
        Some(Value::String(name)) => named(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).fold(none, |all, name| all | named(name)),
        // Some clients put a schema where its name belongs.
        Some(inner @ Value::Object(_)) => accepts(root, inner, depth + 1),
        _ => none,
    });
    if let Some(target) = resolve(root, object) {
        narrow(accepts(root, target, depth + 1));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = object.get(key) {
            let branches: Vec<_> = branches.iter().map(|branch| accepts(root, branch, depth + 1)).collect();
            // One branch that accepts anything makes the union say nothing.
            if branches.iter().all(|types| *types != none) {
                narrow(branches.into_iter().fold(none, |all, types| all | types));
            }
        }
    }
    for branch in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        narrow(accepts(root, branch, depth + 1));
    }
    let values = object.get("enum").and_then(Value::as_array).into_iter().flatten().chain(object.get("const"));
    narrow(values.fold(none, |all, value| all | type_of(value)));
    let mut types = stated.unwrap_or_else(|| implied(object));
    if types != none && object.get("nullable") == Some(&Value::Bool(true)) {
        types |= wit::JsonTypes::NULL;
    }
    types
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
