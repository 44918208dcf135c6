//! One whole `chat.completion` object.

use serde::Serialize;

use super::Answer;
use super::shape::{FunctionShape, LogprobsShape, UsageShape, finish_reason};
use crate::chat::{FinishReason, ToolCall};
use crate::generate::{Message, total_usage};

/// The answer to a request that is not streamed.
#[derive(Debug, Serialize)]
pub(super) struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<ChoiceShape>,
    usage: UsageShape,
}

#[derive(Debug, Serialize)]
struct ChoiceShape {
    index: usize,
    message: MessageShape,
    logprobs: Option<LogprobsShape>,
    finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
struct MessageShape {
    role: &'static str,
    content: Option<String>,
    refusal: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallShape>,
}

#[derive(Debug, Serialize)]
struct ToolCallShape {
    id: String,
    r#type: &'static str,
    function: FunctionShape,
}

impl<'a> Completion<'a> {
    /// The answer that `n` messages make; none when one of them has not finished.
    pub(super) fn new(answer: &'a Answer, messages: Vec<Message>, n: u32, logprobs: bool) -> Option<Self> {
        if messages.len() != n as usize {
            return None;
        }
        let usage = UsageShape::of(total_usage(messages.iter().map(|message| message.usage)));
        let shape = |(index, message): (usize, Message)| Some(choice(index, message.finish_reason?, message, logprobs));
        Some(Self {
            id: &answer.id,
            object: "chat.completion",
            created: answer.created,
            model: &answer.model,
            choices: messages.into_iter().enumerate().map(shape).collect::<Option<_>>()?,
            usage,
        })
    }
}

fn choice(index: usize, reason: FinishReason, message: Message, logprobs: bool) -> ChoiceShape {
    let silent = message.content.is_empty() && !message.tool_calls.is_empty();
    let reasoning = Some(message.reasoning).filter(|text| !text.is_empty());
    let call = |call: ToolCall| ToolCallShape {
        id: call.id,
        r#type: "function",
        function: FunctionShape { name: Some(call.name), arguments: call.arguments },
    };
    ChoiceShape {
        index,
        message: MessageShape {
            role: "assistant",
            content: (!silent).then_some(message.content),
            refusal: (),
            reasoning_content: reasoning.clone(),
            reasoning,
            tool_calls: message.tool_calls.into_iter().map(call).collect(),
        },
        logprobs: logprobs.then(|| LogprobsShape::of(message.logprobs)),
        finish_reason: finish_reason(reason),
    }
}
