//! The parsers that are compared, each behind [`Peer`].

mod dynamo;
mod ours;
mod recipe;
mod smg;

use anyhow::Result;
use serde_json::Value;
use sluicegate_laws::assemble::{Call, Message};

/// What a parser is told about one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) format: &'a str,
    /// OpenAI tool declarations.
    pub(crate) tools: &'a Value,
    /// The prompt already opened the reasoning block.
    pub(crate) thinking: bool,
    pub(crate) tool_choice: Option<&'a str>,
    /// `stop` or `length`.
    pub(crate) finish: &'a str,
}

impl Request<'_> {
    /// Whether a server would look for calls at all.
    fn wants_calls(&self) -> bool {
        self.tools.as_array().is_some_and(|tools| !tools.is_empty()) && self.tool_choice != Some("none")
    }

    /// The declared functions.
    fn functions(&self) -> impl Iterator<Item = &Value> {
        self.tools.as_array().into_iter().flatten().map(|tool| tool.get("function").unwrap_or(tool))
    }
}

/// A parser.
pub(crate) trait Peer {
    fn name(&self) -> &'static str;
    fn supports(&self, format: &str) -> bool;
    /// Feeds the deltas one by one, then the end; gives what a client assembles. The peers do not say which calls they
    /// think finished, so a call counts as finished if its arguments are an object.
    fn stream(&mut self, request: &Request<'_>, chunks: &[&str]) -> Result<Message>;
}

/// Ours first.
pub(crate) fn all() -> Result<Vec<Box<dyn Peer>>> {
    Ok(vec![
        Box::new(ours::Ours::new()),
        Box::new(recipe::Recipe),
        Box::new(dynamo::Dynamo::new()?),
        Box::new(smg::Smg::new()),
    ])
}

/// One delta of a call; indices count up.
fn call_delta(message: &mut Message, index: usize, name: Option<&str>, arguments: &str) {
    while message.calls.len() <= index {
        message.calls.push(Call::default());
    }
    let call = &mut message.calls[index];
    call.name.push_str(name.unwrap_or_default());
    call.arguments.push_str(arguments);
}

fn settle(message: &mut Message) {
    for call in &mut message.calls {
        call.ended = serde_json::from_str::<Value>(&call.arguments).is_ok_and(|value| value.is_object());
    }
}
