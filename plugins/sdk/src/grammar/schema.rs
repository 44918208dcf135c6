//! A tool's JSON Schema as llguidance's `%json` takes it.

use serde_json::{Map, Value, json};

use crate::tools::{JsonTypes, Tool};

/// Keywords whose values are schemas by name.
const MAPS: &[&str] = &["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"];
/// Keywords that a grammar has no use for; the last one would be taken for options of the grammar's compiler.
const DROPPED: &[&str] =
    &["title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated", "x-guidance"];
/// Keywords whose values are data.
const DATA: &[&str] = &["enum", "const", "required"];

/// A tool's schema, ready to be embedded in grammars.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    /// The whole of it, as an object schema.
    pub(super) root: Value,
    /// Arguments must match it: what the grammar can't express is an error, not left out.
    strict: bool,
}

impl Schema {
    /// Reads the schema of `tool`; none at all means any object.
    pub(super) fn of(tool: &Tool) -> Result<Schema, String> {
        let mut root: Value = match tool.schema.trim() {
            "" => json!({}),
            text => serde_json::from_str(text).map_err(|e| format!("the schema of tool '{}': {e}", tool.name))?,
        };
        match root.as_object_mut() {
            Some(map) => map.entry("type").or_insert_with(|| json!("object")),
            None => return Err(format!("the schema of tool '{}' is no JSON object", tool.name)),
        };
        Ok(Schema { root, strict: tool.strict })
    }

    /// The schema of a top-level property.
    pub(super) fn property(&self, key: &str) -> Value {
        self.root.get("properties").and_then(|p| p.get(key)).cloned().unwrap_or_else(|| json!({}))
    }

    /// True if the schema names its properties, so that others are not asked for.
    pub(super) fn is_closed(&self) -> bool {
        let closed = self.root.get("additionalProperties") == Some(&Value::Bool(false));
        closed || self.root.get("properties").is_some()
    }

    /// Follows local references.
    pub(super) fn resolve<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..16 {
            let target = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
            match target.and_then(|pointer| self.root.pointer(pointer)) {
                Some(next) => schema = next,
                None => break,
            }
        }
        schema
    }

    /// The values that a schema lists, if it does.
    pub(super) fn listed(&self, schema: &Value) -> Option<Vec<Value>> {
        let schema = self.resolve(schema);
        match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
            (Some(value), _) => Some(vec![value.clone()]),
            (None, Some(values)) => Some(values.clone()),
            _ => None,
        }
    }

    /// `part` of this schema as a grammar expression.
    pub(super) fn json(&self, part: &Value) -> String {
        self.wrap(adapt(part, "#/$defs/t"), part)
    }

    /// The same, restricted to some types.
    pub(super) fn json_of(&self, part: &Value, types: &[&str]) -> String {
        let one = json!({"type": if types.len() == 1 { json!(types[0]) } else { json!(types) }});
        let empty = part.as_object().is_none_or(Map::is_empty);
        let schema = if empty { one } else { json!({"allOf": [adapt(part, "#/$defs/t"), one]}) };
        self.wrap(schema, part)
    }

    fn wrap(&self, schema: Value, part: &Value) -> String {
        let mut map = match schema {
            Value::Object(map) => map,
            other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
        };
        if refers(part) {
            map.insert("$defs".to_owned(), json!({"t": adapt(&self.root, "#/$defs/t")}));
        }
        inline(map, self.strict)
    }
}

/// The schema of a call's object, one alternative for each tool; `of` makes it from the tool's arguments.
pub(super) fn calls(tools: &[(&Tool, Schema)], of: impl Fn(&Tool, Value) -> Value) -> Map<String, Value> {
    let mut defs = Map::new();
    let mut choices = Vec::new();
    for (n, (tool, schema)) in tools.iter().enumerate() {
        let name = format!("t{n}");
        let place = format!("#/$defs/{name}");
        let arguments = adapt(&schema.root, &place);
        if refers(&schema.root) {
            defs.insert(name, arguments);
            choices.push(of(tool, json!({"$ref": place})));
        } else {
            choices.push(of(tool, arguments));
        }
    }
    let mut map = match (choices.len(), choices.pop()) {
        (1, Some(Value::Object(only))) => only,
        (_, Some(last)) => {
            choices.push(last);
            Map::from_iter([("anyOf".to_owned(), Value::Array(choices))])
        }
        (_, None) => Map::new(),
    };
    if !defs.is_empty() {
        map.insert("$defs".to_owned(), Value::Object(defs));
    }
    map
}

/// `%json` with its options. JSON is written the way that chat templates write it, with at most a space behind commas
/// and colons, so a model can't fill its answer with white space.
pub(super) fn inline(mut schema: Map<String, Value>, strict: bool) -> String {
    let options = json!({
        "whitespace_flexible": false, "item_separator": ", ?", "key_separator": ": ?", "lenient": !strict,
    });
    schema.insert("x-guidance".to_owned(), options);
    format!("%json {}", Value::Object(schema))
}

/// True if any of `tools` wants its arguments to match exactly.
pub(super) fn any_strict(tools: &[(&Tool, Schema)]) -> bool {
    tools.iter().any(|(tool, _)| tool.strict)
}

/// A copy of `schema` whose local references begin at `root`, whose type names are JSON's and which says nothing to
/// people.
fn adapt(schema: &Value, root: &str) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let mut out = Map::new();
    for (key, value) in map {
        let key_name = key.as_str();
        let new = match value {
            _ if DROPPED.contains(&key_name) => continue,
            _ if DATA.contains(&key_name) => value.clone(),
            Value::String(target) if key_name == "$ref" => match target.strip_prefix('#') {
                Some(pointer) => Value::String(format!("{root}{pointer}")),
                None => value.clone(),
            },
            Value::String(_) | Value::Array(_) if key_name == "type" => match type_names(value) {
                Some(names) => names,
                None => continue,
            },
            Value::Object(named) if MAPS.contains(&key_name) => {
                named.iter().map(|(name, part)| (name.clone(), adapt(part, root))).collect()
            }
            Value::Array(parts) => parts.iter().map(|part| adapt(part, root)).collect(),
            other => adapt(other, root),
        };
        out.insert(key.clone(), new);
    }
    Value::Object(out)
}

/// JSON's names for a `type` keyword; `None` if one of them is unknown.
fn type_names(value: &Value) -> Option<Value> {
    match value {
        Value::String(name) => json_name(name).map(|n| json!(n)),
        Value::Array(names) => {
            let names: Option<Vec<&str>> = names.iter().map(|n| n.as_str().and_then(json_name)).collect();
            names.map(|n| json!(n))
        }
        _ => None,
    }
}

fn json_name(name: &str) -> Option<&'static str> {
    let own = JsonTypes::from_name(name);
    NAMES.iter().find(|(bit, _)| *bit == own).map(|(_, name)| *name)
}

/// Types and their names.
pub(super) const NAMES: [(JsonTypes, &str); 7] = [
    (JsonTypes::NULL, "null"),
    (JsonTypes::BOOLEAN, "boolean"),
    (JsonTypes::INTEGER, "integer"),
    (JsonTypes::NUMBER, "number"),
    (JsonTypes::STRING, "string"),
    (JsonTypes::ARRAY, "array"),
    (JsonTypes::OBJECT, "object"),
];

/// True if a local reference stands anywhere in `schema`.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.iter().any(|(key, value)| (key == "$ref" && value.is_string()) || refers(value)),
        Value::Array(parts) => parts.iter().any(refers),
        _ => false,
    }
}
