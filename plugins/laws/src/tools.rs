//! OpenAI tool declarations digested the way the host does it.

use serde_json::Value;
use sluicegate_sdk::tools::{JsonTypes, Param, Tool, ToolSet};

/// How deep `$ref` and unions are followed.
const MAX_DEPTH: usize = 16;

/// The tools of a request, `[{"type": "function", "function": {...}}]` or bare functions.
pub fn digest(tools: &Value) -> ToolSet {
    let list = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    ToolSet::new(list.iter().map(|t| tool(t.get("function").unwrap_or(t))).collect())
}

fn tool(function: &Value) -> Tool {
    let text = |key: &str| function.get(key).and_then(Value::as_str).map(str::to_owned);
    let schema = function.get("parameters").cloned().unwrap_or(Value::Null);
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let params = properties.into_iter().flatten().map(|(name, property)| Param {
        name: name.clone(),
        accepts: accepts(property, &schema, 0),
        required: required.contains(&name.as_str()),
    });
    Tool {
        name: text("name").unwrap_or_default(),
        description: text("description"),
        params: params.collect(),
        schema: if schema.is_null() { String::new() } else { schema.to_string() },
        strict: function.get("strict").and_then(Value::as_bool).unwrap_or(false),
    }
}

fn accepts(schema: &Value, root: &Value, depth: usize) -> JsonTypes {
    if depth > MAX_DEPTH {
        return JsonTypes::empty();
    }
    let mut all = match schema.get("type") {
        Some(Value::String(name)) => JsonTypes::from_name(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).fold(JsonTypes::empty(), |a, n| a | JsonTypes::from_name(n))
        }
        _ => JsonTypes::empty(),
    };
    for key in ["anyOf", "oneOf", "allOf"] {
        for part in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            all = all | accepts(part, root, depth + 1);
        }
    }
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'))
        && let Some(target) = root.pointer(pointer)
    {
        all = all | accepts(target, root, depth + 1);
    }
    let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"));
    values.fold(all, |all, value| all | type_of(value))
}

fn type_of(value: &Value) -> JsonTypes {
    match value {
        Value::Null => JsonTypes::NULL,
        Value::Bool(_) => JsonTypes::BOOLEAN,
        Value::Number(n) if n.is_f64() => JsonTypes::NUMBER,
        Value::Number(_) => JsonTypes::INTEGER,
        Value::String(_) => JsonTypes::STRING,
        Value::Array(_) => JsonTypes::ARRAY,
        Value::Object(_) => JsonTypes::OBJECT,
    }
}
