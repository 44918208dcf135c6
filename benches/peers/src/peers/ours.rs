//! The formats of this repository, built natively.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use serde_json::Value;
use sluicegate_catalogue::plugins;
use sluicegate_laws::assemble::{Call, Message};
use sluicegate_laws::tools::digest;
use sluicegate_sdk::config::{ParserConfig, ReasoningMode, ToolChoice};
use sluicegate_sdk::event::{Channel, Event, Step, StopCause};
use sluicegate_sdk::format::Plugin;
use sluicegate_sdk::tools::ToolSet;

use super::{Peer, Request, call_delta};

pub(super) struct Ours {
    plugins: Vec<Plugin>,
    /// Which plugin has which format.
    formats: HashMap<String, usize>,
    /// The tools of the last request: a server digests a set once for all requests that bring it.
    tools: (Value, Arc<ToolSet>),
}

impl Ours {
    pub(super) fn new() -> Self {
        let plugins = plugins();
        let formats =
            plugins.iter().enumerate().flat_map(|(n, plugin)| plugin.describe().into_iter().map(move |f| (f.name, n)));
        Self { formats: formats.collect(), plugins, tools: (Value::Null, Arc::default()) }
    }

    fn tools(&mut self, tools: &Value) -> Arc<ToolSet> {
        if self.tools.0 != *tools {
            self.tools = (tools.clone(), Arc::new(digest(tools)));
        }
        Arc::clone(&self.tools.1)
    }
}

fn take(event: Event, message: &mut Message) {
    match event {
        Event::Content(text) => message.content.push_str(&text),
        Event::Reasoning(text) => message.reasoning.push_str(&text),
        Event::ToolStart { id, name, .. } => message.calls.push(Call { name, id, ..Call::default() }),
        Event::ToolArgs { index, delta } => call_delta(message, index as usize, None, &delta),
        Event::ToolEnd(index) => {
            if let Some(call) = message.calls.get_mut(index as usize) {
                call.ended = true;
            }
        }
        Event::Malformed(text) => message.malformed.push_str(&text),
        Event::EndTurn | Event::Note(_) | Event::Other { .. } => {}
    }
}

impl Peer for Ours {
    fn name(&self) -> &'static str {
        "sluicegate (native)"
    }

    fn supports(&self, format: &str) -> bool {
        self.formats.contains_key(format)
    }

    fn stream(&mut self, request: &Request<'_>, chunks: &[&str]) -> Result<Message> {
        let tools = self.tools(request.tools);
        let plugin = self.formats.get(request.format).and_then(|n| self.plugins.get(*n));
        let plugin = plugin.ok_or_else(|| anyhow!("no such format"))?;
        let config = ParserConfig {
            format: request.format.to_owned(),
            tool_choice: if request.tool_choice == Some("none") { ToolChoice::None } else { ToolChoice::Auto },
            parallel_tools: true,
            reasoning: if request.thinking { ReasoningMode::On } else { ReasoningMode::Off },
            ..ParserConfig::default()
        };
        let (mut parser, mut message) = (plugin.parser(&config, Some(tools)), Message::default());
        for chunk in chunks {
            match parser.push(chunk) {
                Step::Hold => {}
                Step::Pass(Channel::Content) => message.content.push_str(chunk),
                Step::Pass(Channel::Reasoning) => message.reasoning.push_str(chunk),
                Step::Args { index, escaped } => take(Step::args(chunk, index, escaped), &mut message),
                Step::Events(events) => events.into_iter().for_each(|event| take(event, &mut message)),
            }
        }
        let tail = parser.finish(&if request.finish == "length" { StopCause::Length } else { StopCause::Eos(None) });
        tail.events.into_iter().for_each(|event| take(event, &mut message));
        message.finish = tail.finish;
        Ok(message)
    }
}
