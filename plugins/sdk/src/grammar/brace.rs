//! Grammars of calls in brace literals.

use serde_json::Value;

use super::lark::{either, quote};
use super::literal::{Style, Values, fields_in_order};
use super::schema::Schema;
use super::{Block, Job, join, row};
use crate::brace::BraceCalls;
use crate::tools::{JsonTypes, Tool};

/// Calls of a brace format.
pub(super) fn block(spec: &BraceCalls, job: &mut Job<'_>) -> Result<Block, String> {
    let open = spec.opens.first().copied().unwrap_or_default();
    let close = spec.closes.first().copied().unwrap_or_default();
    let tools = std::mem::take(&mut job.tools);
    let choices = tools.iter().map(|(tool, schema)| call(spec, job, tool, schema)).collect::<Result<Vec<_>, _>>()?;
    job.tools = tools;
    let call = job.lark.rule(&join(&[&quote(open), &either(choices), &quote(close)]));
    Ok(Block { calls: row(&call, "SPACE?", job.many), trigger: Some(open.to_owned()) })
}

fn call(spec: &BraceCalls, job: &mut Job<'_>, tool: &Tool, schema: &Schema) -> Result<String, String> {
    let mut fields = Vec::new();
    for param in &tool.params {
        let name = &param.name;
        if name.is_empty() || name.contains([':', ',', '{', '}', '[', ']', '\n', '"']) || name.trim() != name {
            return Err(format!("the parameter '{name}' has a name that this format can't write"));
        }
        let part = schema.property(name);
        let value = if spec.decode {
            quoted(spec, job, schema, param.accepts, &part)
        } else {
            Values::new(&mut job.lark, Style::Brace(spec.quote), schema).value(&part)
        };
        fields.push((format!("{} {value}", quote(&format!("{name}:"))), param.required));
    }
    let inside = if fields.is_empty() { String::new() } else { fields_in_order(&mut job.lark, &fields) };
    Ok(join(&[&quote(&format!("{}{}{{", spec.prefix, tool.name)), &inside, "\"}\""]))
}

/// A value of any type between the string's quotes.
fn quoted(spec: &BraceCalls, job: &mut Job<'_>, schema: &Schema, accepts: JsonTypes, part: &Value) -> String {
    let mark = quote(spec.quote);
    if accepts.is_empty() || accepts.accepts(JsonTypes::STRING) {
        let text = match schema.listed(part) {
            Some(values) => {
                let texts = values.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
                job.lark.terminal(&format!("{} {mark}", either(texts.map(|t| quote(&t)).collect())))
            }
            None => job.lark.text_until(std::slice::from_ref(&mark), &mark),
        };
        return format!("{mark} {text}");
    }
    join(&[&mark, &schema.json(part), &mark])
}

/// A value that a schema lists.
pub(super) fn literal(value: &Value, mark: &str) -> String {
    match value {
        Value::String(text) => format!("{mark}{text}{mark}"),
        Value::Array(items) => format!("[{}]", items.iter().map(|v| literal(v, mark)).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let fields = map.iter().map(|(key, v)| format!("{key}:{}", literal(v, mark)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}
