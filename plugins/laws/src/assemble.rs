//! Runs a parser over chunks and assembles what a client would see, checking the laws of the event stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use sluicegate_sdk::config::ParserConfig;
use sluicegate_sdk::event::{Channel, Event, FinishReason, Step, StopCause};
use sluicegate_sdk::format::Plugin;
use sluicegate_sdk::tools::ToolSet;

/// One tool call as a client assembles it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub name: String,
    /// The model's own id.
    pub id: Option<String>,
    /// All argument deltas joined.
    pub arguments: String,
    /// The call ended.
    pub ended: bool,
}

/// One message as a client assembles it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// All content deltas joined.
    pub content: String,
    /// All reasoning deltas joined.
    pub reasoning: String,
    /// In order.
    pub calls: Vec<Call>,
    /// Markup that became no call, joined.
    pub malformed: String,
    /// What the parser says about the end.
    pub finish: Option<FinishReason>,
}

impl Message {
    /// The calls that ended.
    pub fn ended(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|c| c.ended)
    }
}

/// Parses `chunks`; `Err` names the law that the event stream broke.
pub fn run(
    plugin: &Plugin,
    config: &ParserConfig,
    tools: &Arc<ToolSet>,
    chunks: &[&str],
    cause: &StopCause,
) -> Result<Message, String> {
    run_tokens(plugin, config, tools, chunks.iter().map(|chunk| (*chunk, [].as_slice())), cause)
}

/// Like [`run`], with the ids of the tokens that each delta is made of.
pub fn run_tokens<'a>(
    plugin: &Plugin,
    config: &ParserConfig,
    tools: &Arc<ToolSet>,
    deltas: impl Iterator<Item = (&'a str, &'a [u32])>,
    cause: &StopCause,
) -> Result<Message, String> {
    let mut parser = plugin.parser(config, Some(Arc::clone(tools)));
    let mut message = Message::default();
    let mut seen = Seen::default();
    for (text, ids) in deltas {
        match if ids.is_empty() { parser.push(text) } else { parser.push_tokens(text, ids) } {
            Step::Hold => {}
            Step::Pass(Channel::Content) => seen.take(Event::Content(text.to_owned()), &mut message)?,
            Step::Pass(Channel::Reasoning) => seen.take(Event::Reasoning(text.to_owned()), &mut message)?,
            Step::Args { index, escaped } => seen.take(Step::args(text, index, escaped), &mut message)?,
            Step::Events(events) if events.is_empty() => return Err("an empty list of events".to_owned()),
            Step::Events(events) => {
                for event in events {
                    seen.take(event, &mut message)?;
                }
            }
        }
    }
    let tail = parser.finish(cause);
    for event in tail.events {
        seen.take(event, &mut message)?;
    }
    message.finish = tail.finish;
    for call in message.ended() {
        if !is_object(&call.arguments) {
            return Err(format!("arguments of '{}' are no JSON object: {}", call.name, call.arguments));
        }
    }
    for call in message.calls.iter().filter(|c| !c.ended) {
        if is_object(&call.arguments) {
            return Err(format!("unfinished call '{}' looks complete: {}", call.name, call.arguments));
        }
    }
    Ok(message)
}

/// Whether `text` is one JSON object. Numbers are not evaluated: JSON bounds none.
fn is_object(text: &str) -> bool {
    serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text).is_ok()
}

/// What the stream has shown so far.
#[derive(Default)]
struct Seen {
    open: bool,
    /// Content has been said since the last call began.
    said: bool,
}

impl Seen {
    fn take(&mut self, event: Event, message: &mut Message) -> Result<(), String> {
        match event {
            Event::Content(text) => {
                let blank = text.trim().is_empty();
                if text.is_empty() || (!message.calls.is_empty() && blank && !self.said) {
                    return Err(format!("content {text:?} that says nothing"));
                }
                self.said |= !blank;
                message.content.push_str(&text);
            }
            Event::Reasoning(text) => {
                if text.is_empty() {
                    return Err("empty reasoning".to_owned());
                }
                message.reasoning.push_str(&text);
            }
            Event::ToolStart { index, id, name } => {
                if index as usize != message.calls.len() || name.is_empty() || self.open {
                    return Err(format!("call {index} '{name}' out of order"));
                }
                message.calls.push(Call { name, id, ..Call::default() });
                (self.open, self.said) = (true, false);
            }
            Event::ToolArgs { index, delta } => {
                let last = message.calls.len().checked_sub(1);
                let call = message.calls.last_mut().filter(|_| last == Some(index as usize) && self.open);
                let call = call.ok_or_else(|| format!("arguments for call {index}, which is not open"))?;
                if delta.is_empty() {
                    return Err("an empty argument delta".to_owned());
                }
                call.arguments.push_str(&delta);
            }
            Event::ToolEnd(index) => {
                let last = message.calls.len().checked_sub(1);
                let call = message.calls.last_mut().filter(|_| last == Some(index as usize) && self.open);
                call.ok_or_else(|| format!("end of call {index}, which is not open"))?.ended = true;
                self.open = false;
            }
            Event::Malformed(raw) => {
                message.malformed.push_str(&raw);
                self.open = false;
            }
            Event::EndTurn | Event::Note(_) | Event::Other { .. } => {}
        }
        Ok(())
    }
}
