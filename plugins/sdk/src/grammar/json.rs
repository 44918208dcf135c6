//! Grammars of calls written as JSON.

use serde_json::{Map, Value, json};

use super::lark::{either, head, optional, quote, template};
use super::schema::{Schema, any_strict, calls, inline};
use super::{Block, Job, join, row};
use crate::calls::{JsonCalls, Written};
use crate::tools::Tool;

/// Calls of a JSON format.
pub(super) fn block(spec: &JsonCalls, job: &mut Job<'_>) -> Block {
    // An array's own bracket may be part of the opener.
    let open = spec.written_open.unwrap_or_else(|| spec.opens.first().copied().unwrap_or_default());
    let open = if matches!(spec.written, Written::Array) { open.trim_end_matches('[') } else { open };
    let close = if spec.closes_optional { "" } else { spec.closes.first().copied().unwrap_or_default() };
    let trigger = match spec.written {
        Written::Headed { before, .. } if open.is_empty() => head(before),
        _ => head(open),
    };
    let trigger = Some(trigger.to_owned()).filter(|t| !t.is_empty());
    let mut opener = template(open);
    if !spec.starts.is_empty() && !job.triggered {
        opener = optional(&opener);
    }
    // `functools[` is one word.
    if !opener.is_empty() && !spec.opens.iter().any(|o| o.ends_with('[')) {
        opener += " SPACE?";
    }
    let closer = if close.is_empty() { String::new() } else { format!("SPACE? {}", quote(close)) };
    let calls = match spec.written {
        Written::Blocks => {
            let object = object(spec, job);
            let call = job.lark.rule(&join(&[&opener, &object, &closer]));
            row(&call, "SPACE?", job.many)
        }
        Written::Single => join(&[&opener, &object(spec, job), &closer]),
        Written::Row(separator) => {
            let object = object(spec, job);
            join(&[&opener, &row(&object, &format!("{} SPACE?", quote(separator)), job.many), &closer])
        }
        Written::Array => join(&[&opener, &array(spec, job), &closer]),
        Written::Headed { before, after, close: end } => {
            let one = |(tool, schema): &(&Tool, Schema)| {
                let root = schema.json(&schema.root);
                join(&[&template(before), &quote(&tool.name), &template(after), &root, &template(end)])
            };
            let choices: Vec<String> = job.tools.iter().map(one).collect();
            let call = job.lark.rule(&either(choices));
            join(&[&opener, &row(&call, "SPACE?", job.many), &closer])
        }
    };
    Block { calls, trigger }
}

/// One call's object.
pub(super) fn one(spec: &JsonCalls, tool: &Tool, schema: &Schema) -> String {
    inline(objects(spec, &[(tool, schema.clone())]), tool.strict)
}

/// The schema of one call's object.
fn objects(spec: &JsonCalls, tools: &[(&Tool, Schema)]) -> Map<String, Value> {
    calls(tools, |tool, arguments| {
        if spec.name_is_key {
            return json!({
                "type": "object", "properties": {tool.name.clone(): arguments}, "required": [tool.name],
                "additionalProperties": false,
            });
        }
        let name = spec.name_keys.first().copied().unwrap_or("name");
        let args = spec.args_keys.first().copied().unwrap_or("arguments");
        let mut properties = Map::new();
        let mut required = Vec::new();
        if let Some(id) = spec.id_key {
            properties.insert(id.to_owned(), json!({"type": "string", "pattern": "^[0-9]{1,6}$"}));
            required.push(id);
        }
        properties.insert(name.to_owned(), json!({"const": tool.name}));
        properties.insert(args.to_owned(), arguments);
        required.extend([name, args]);
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    })
}

fn object(spec: &JsonCalls, job: &mut Job<'_>) -> String {
    let json = inline(objects(spec, &job.tools), any_strict(&job.tools));
    job.lark.rule(&json)
}

/// All calls as an array.
pub(super) fn array(spec: &JsonCalls, job: &mut Job<'_>) -> String {
    let mut items = objects(spec, &job.tools);
    let defs = items.remove("$defs");
    let mut map = Map::from_iter([
        ("type".to_owned(), json!("array")),
        ("items".to_owned(), Value::Object(items)),
        ("minItems".to_owned(), json!(1)),
    ]);
    if !job.many {
        map.insert("maxItems".to_owned(), json!(1));
    }
    map.extend(defs.map(|defs| ("$defs".to_owned(), defs)));
    let json = inline(map, any_strict(&job.tools));
    job.lark.rule(&json)
}
