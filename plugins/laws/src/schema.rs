//! JSON Schema as far as the tools of these tests use it.

use serde_json::Value;

/// `Err` says where `value` breaks `schema`.
pub fn check(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#')) {
        let schema = root.pointer(target).ok_or_else(|| format!("no {target}"))?;
        return check(value, schema, root);
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !names.is_empty() && !names.iter().any(|name| is(value, name)) {
        return Err(format!("{value} is none of {names:?}"));
    }
    if schema.get("enum").and_then(Value::as_array).is_some_and(|list| !list.contains(value)) {
        return Err(format!("{value} is not in the list"));
    }
    if let Some(items) = value.as_array() {
        let schema = schema.get("items").unwrap_or(&Value::Null);
        return items.iter().try_for_each(|item| check(item, schema, root));
    }
    let Some(map) = value.as_object() else { return Ok(()) };
    for key in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(key) {
            return Err(format!("'{key}' is missing"));
        }
    }
    let properties = schema.get("properties");
    map.iter().try_for_each(|(key, value)| {
        let part = properties.and_then(|p| p.get(key)).unwrap_or(&Value::Null);
        check(value, part, root).map_err(|e| format!("{key}: {e}"))
    })
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}
