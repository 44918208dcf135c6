//! `tool-parser` and `reasoning-parser` of smg, chained as its gateway chains them: reasoning first, the rest to the tool
//! parser, both drained at the end.

use anyhow::{Result, anyhow};
use futures::executor::block_on;
use openai_protocol::common::Tool;
use reasoning_parser::ReasoningParser;
use sluicegate_laws::assemble::Message;
use tool_parser::types::ToolCallItem;

use super::{Peer, Request, call_delta, settle};

pub(super) struct Smg {
    tools: tool_parser::ParserFactory,
    reasoning: reasoning_parser::ParserFactory,
}

impl Smg {
    pub(super) fn new() -> Self {
        Self { tools: tool_parser::ParserFactory::new(), reasoning: reasoning_parser::ParserFactory::new() }
    }

    fn reasoning_for(&self, request: &Request<'_>) -> Option<Box<dyn ReasoningParser>> {
        let name = names(request.format)?.1?;
        // Its R1 parser always begins inside the block, so a server leaves it out where thinking is off.
        if name == "deepseek_r1" && !request.thinking {
            return None;
        }
        let mut parser = self.reasoning.registry().create_parser(name)?;
        if request.thinking {
            parser.mark_reasoning_started();
            parser.mark_think_start_stripped();
        }
        Some(parser)
    }

    fn tools_for(&self, request: &Request<'_>) -> Option<Box<dyn tool_parser::ToolParser>> {
        let name = names(request.format)?.0.filter(|_| request.wants_calls())?;
        self.tools.registry().create_parser(name)
    }
}

/// Its names of a format: tool parser, reasoning parser.
fn names(format: &str) -> Option<(Option<&'static str>, Option<&'static str>)> {
    Some(match format {
        "deepseek_v4" => (Some("deepseek_v4"), Some("deepseek_v4")),
        "deepseek_v41" => (Some("deepseek_v41"), Some("deepseek_v41")),
        "deepseek_v32" => (Some("deepseek32"), Some("deepseek_v31")),
        "deepseek_v31" => (Some("deepseek31"), Some("deepseek_v31")),
        "deepseek_v3" => (Some("deepseek"), None),
        "hermes" => (Some("qwen"), None),
        "qwen3_coder" => (Some("qwen_xml"), Some("qwen3")),
        "glm47" => (Some("glm47_moe"), Some("glm45")),
        "glm45" => (Some("glm45_moe"), Some("glm45")),
        "kimi_k2" => (Some("kimik2"), Some("kimi_k25")),
        "minimax_m2" => (Some("minimax_m2"), Some("minimax")),
        "llama3_json" => (Some("llama"), None),
        "pythonic" => (Some("pythonic"), None),
        "mistral" => (Some("mistral"), None),
        "deepseek_r1" => (None, Some("deepseek_r1")),
        "qwen3" => (Some("qwen"), Some("qwen3")),
        _ => return None,
    })
}

fn take(items: Vec<ToolCallItem>, message: &mut Message) {
    for item in items {
        call_delta(message, item.tool_index, item.name.as_deref(), &item.parameters);
    }
}

impl Peer for Smg {
    fn name(&self) -> &'static str {
        "smg 1.10.0"
    }

    fn supports(&self, format: &str) -> bool {
        names(format).is_some()
    }

    fn stream(&mut self, request: &Request<'_>, chunks: &[&str]) -> Result<Message> {
        let tools: Vec<Tool> = serde_json::from_value(request.tools.clone())?;
        let mut reasoning = self.reasoning_for(request);
        let mut parser = self.tools_for(request);
        let (mut message, mut failure) = (Message::default(), None);
        // The tool parser sees what is not reasoning, empty deltas too.
        let mut feed = |text: &str, thinking: bool, message: &mut Message| {
            let Some(parser) = parser.as_mut().filter(|_| !thinking) else {
                return message.content.push_str(text);
            };
            match block_on(parser.parse_incremental(text, &tools)) {
                Ok(part) => {
                    message.content.push_str(&part.normal_text);
                    take(part.calls, message);
                }
                // Its gateway logs a failed delta and goes on.
                Err(error) => failure = Some(error.to_string()),
            }
        };
        for delta in chunks {
            let Some(parser) = reasoning.as_mut() else {
                feed(delta, false, &mut message);
                continue;
            };
            let part = parser.parse_reasoning_streaming_incremental(delta)?;
            message.reasoning.push_str(&part.reasoning_text);
            feed(&part.normal_text, parser.is_in_reasoning(), &mut message);
        }
        if let Some(parser) = reasoning.as_mut() {
            let part = parser.flush()?;
            message.reasoning.push_str(&part.reasoning_text);
            if !part.normal_text.is_empty() {
                feed(&part.normal_text, parser.is_in_reasoning(), &mut message);
            }
        }
        if let Some(parser) = parser.as_mut() {
            message.content.push_str(&parser.take_unstreamed_normal_text());
            take(parser.get_unstreamed_tool_args().unwrap_or_default(), &mut message);
        }
        settle(&mut message);
        failure.map_or(Ok(message), |error| Err(anyhow!(error)))
    }
}
