//! Grammars of calls written as Python.

use super::lark::{either, quote};
use super::literal::{Style, Values, fields_in_order};
use super::schema::Schema;
use super::{Block, Job, join, json, row};
use crate::calls::JsonCalls;
use crate::python::{PythonCalls, Written};
use crate::tools::Tool;

/// Calls of a Python format.
pub(super) fn block(spec: &PythonCalls, job: &mut Job<'_>) -> Block {
    let open = spec.opens.first().copied().unwrap_or_default();
    let close = spec.closes.first().copied().unwrap_or_default();
    let body = match spec.written {
        Written::Dicts => json::array(&JsonCalls::BASE, job),
        Written::List | Written::Lines => {
            let tools = std::mem::take(&mut job.tools);
            let choices = tools.iter().map(|(tool, schema)| call(job, tool, schema)).collect();
            job.tools = tools;
            let call = job.lark.rule(&either(choices));
            if matches!(spec.written, Written::Lines) {
                row(&call, "/\\n{1,2}/", job.many)
            } else {
                format!("\"[\" {} \"]\"", row(&call, "/, ?/", job.many))
            }
        }
    };
    let part = |literal: &str| if literal.is_empty() { String::new() } else { quote(literal) };
    let calls = match (open, close) {
        ("", _) => body,
        (_, "") => join(&[&part(open), "SPACE?", &body]),
        _ => join(&[&part(open), "SPACE?", &body, "SPACE?", &part(close)]),
    };
    Block { calls, trigger: Some(open.to_owned()).filter(|o| !o.is_empty()) }
}

/// `name(key=value, ...)`.
fn call(job: &mut Job<'_>, tool: &Tool, schema: &Schema) -> String {
    let mut fields = Vec::new();
    for param in &tool.params {
        let value = Values::new(&mut job.lark, Style::Python, schema).value(&schema.property(&param.name));
        fields.push((format!("{} {value}", quote(&format!("{}=", param.name))), param.required));
    }
    let inside = if fields.is_empty() { String::new() } else { fields_in_order(&mut job.lark, &fields) };
    join(&[&quote(&format!("{}(", tool.name)), &inside, "\")\""])
}
