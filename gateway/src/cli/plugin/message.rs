//! What a client assembles from one choice, through the same code as the API, and the laws of every stream.

use std::collections::HashSet;

use sluicegate_cases::{Call, Case, Seen};

use super::case;
use crate::chat::{self, FinishReason};
use crate::generate::{Assembler, Malformed};
use crate::plugins::{Event, Pinned, StreamConfig, ToolSet};

/// A case made ready to run many times.
pub(super) struct Run<'a> {
    pinned: &'a Pinned,
    case: &'a Case,
    config: StreamConfig,
    tools: Option<std::sync::Arc<ToolSet>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(pinned: &'a Pinned, case: &'a Case) -> Self {
        let tools = case::tools(case);
        let tools = (!tools.is_empty()).then(|| ToolSet::new(&tools));
        let config = case::config(case);
        Self { pinned, case, config, tools }
    }

    /// Streams these chunks. `Err` names the law that the stream broke.
    pub(super) fn stream(&self, chunks: &[&str]) -> Result<Seen, String> {
        let mut stream = self.pinned.open(&self.config, self.tools.clone()).map_err(|error| error.to_string())?;
        let mut client = Client::default();
        let mut assembler = Assembler::new("check", 0, Malformed::Drop);
        for chunk in chunks {
            let events = stream.push(chunk, &[]).map_err(|error| error.to_string())?;
            for event in events {
                client.take(event, &mut assembler)?;
            }
        }
        let cause = case::cause(self.case);
        let mut tail = stream.finish(&cause).map_err(|error| error.to_string())?;
        for event in std::mem::take(&mut tail.events) {
            client.take(event, &mut assembler)?;
        }
        let reason = assembler.finish(tail, &cause, &mut Vec::new());
        client.message.finish = match reason {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::ContentFilter => "content_filter",
        };
        Ok(client.message)
    }
}

/// The far end of the stream.
#[derive(Default)]
struct Client {
    message: Seen,
    ids: HashSet<String>,
}

impl Client {
    fn take(&mut self, event: Event, assembler: &mut Assembler) -> Result<(), String> {
        match &event {
            Event::ToolEnd { index } => {
                if let Some(call) = self.message.calls.get_mut(*index as usize) {
                    call.finished = true;
                }
            }
            Event::ToolBroken { index, reason } => return Err(format!("call {index}: {reason}")),
            _ => {}
        }
        let mut seen = Vec::new();
        assembler.take(event, &mut seen);
        seen.into_iter().try_for_each(|event| self.see(event))
    }

    fn see(&mut self, event: chat::Event) -> Result<(), String> {
        let message = &mut self.message;
        match event {
            chat::Event::Content(text) => {
                if !message.calls.is_empty() && text.trim().is_empty() {
                    return Err(format!("content {text:?} after a call"));
                }
                message.content.push_str(&text);
            }
            chat::Event::Reasoning(text) => message.reasoning.push_str(&text),
            chat::Event::ToolStart { index, id, name } => {
                if index as usize != message.calls.len() || name.is_empty() {
                    return Err(format!("call {index} {name:?} begins out of order"));
                }
                if id.is_empty() || !self.ids.insert(id.clone()) {
                    return Err(format!("the id {id:?} of call {index} is not unique"));
                }
                message.calls.push(Call { name, ..Call::default() });
            }
            chat::Event::ToolArgs { index, delta } => {
                let call = message.calls.get_mut(index as usize).filter(|call| !call.finished);
                let call = call.ok_or_else(|| format!("arguments for call {index}, which is not open"))?;
                call.arguments.push_str(&delta);
            }
            chat::Event::Logprobs(_) | chat::Event::Finish { .. } => {}
        }
        Ok(())
    }
}
