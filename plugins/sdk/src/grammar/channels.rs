//! Grammars of formats made of messages with headers.

use super::lark::{either, optional, quote, template};
use super::schema::Schema;
use super::{Constraint, GrammarInput, Job, Start, join, json, tags};
use crate::channels::Channels;
use crate::config::ReasoningMode;
use crate::format::{Calls, Format};
use crate::tools::Tool;

/// The grammar of a format of channels.
pub(super) fn constrain(
    spec: &Channels,
    format: &Format,
    mut job: Job<'_>,
    input: &GrammarInput,
) -> Result<Option<Constraint>, String> {
    let wire = spec.wire;
    job.never = spec.starts.iter().chain(spec.ends).map(|text| (*text).to_owned()).collect();
    let tools = std::mem::take(&mut job.tools);
    let mut calls = Vec::new();
    let mut bodies = Vec::new();
    for (tool, schema) in &tools {
        if wire.reserved.contains(&tool.name.as_str()) {
            return Err(format!("the tool '{}' has the name of a recipient that is not a tool", tool.name));
        }
        let body = body(format, &mut job, tool, schema)?;
        let body = job.lark.rule(&body);
        calls.push(join(&[&quote(&format!("{}{}", wire.call[0], tool.name)), &template(wire.call[1]), &body]));
        bodies.push(body);
    }
    let call = job.lark.rule(&either(calls));
    let (next, end) = (quote(wire.next), quote(wire.end));
    let more = if job.many { format!("({end} {next} {call})*") } else { String::new() };
    let end = optional(&end);
    if job.triggered && !wire.trigger.is_empty() {
        let calls = match wire.trigger {
            header if header == wire.call[0] => join(&[&call, &more, &end]),
            opener if opener == wire.call[1] => join(&[&quote(opener), &either(bodies), &end]),
            _ => join(&[&either(bodies), &end]),
        };
        let start = Start::Triggered(wire.trigger.to_owned());
        return Ok(Some(Constraint { lark: job.lark.finish(&calls), start }));
    }
    let reasoning = match input.reasoning {
        ReasoningMode::Off => String::new(),
        _ => {
            let never: Vec<String> = job.never.iter().map(|text| quote(text)).collect();
            let text = job.lark.text_until(&never, &quote(wire.reasoning[1]));
            format!("({} {text} {next})*", quote(wire.reasoning[0]))
        }
    };
    let mut answer = join(&[&call, &more, &end]);
    if job.triggered {
        // Nothing shows that a call begins: the answer is either calls or one message.
        let never: Vec<String> = job.never.iter().map(|text| quote(text)).collect();
        let ends: Vec<String> = spec.ends.iter().map(|text| quote(text)).collect();
        let text = job.lark.text_until(&never, &optional(&either(ends)));
        answer = either(vec![answer, join(&[&quote(wire.content), &text])]);
    }
    let start = join(&[&optional(&next), &reasoning, &answer]);
    Ok(Some(Constraint { lark: job.lark.finish(&start), start: Start::Immediately }))
}

/// The body of a message that calls `tool`.
fn body<'a>(format: &Format, job: &mut Job<'a>, tool: &'a Tool, schema: &Schema) -> Result<String, String> {
    let tagged = format.channels.is_some_and(|c| c.tagged);
    match format.calls {
        Calls::Tags(spec) if tagged => tags::parameters(spec, job, tool, schema),
        Calls::Tags(spec) => {
            let many = std::mem::replace(&mut job.many, false);
            job.tools = vec![(tool, schema.clone())];
            let block = tags::block(spec, job);
            job.many = many;
            Ok(block?.calls)
        }
        Calls::Json(spec) => Ok(json::one(spec, tool, schema)),
        _ => Ok(schema.json(&schema.root)),
    }
}
