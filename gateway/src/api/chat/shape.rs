//! The JSON shapes that whole answers and chunks share.

use serde::Serialize;

use crate::chat::{FinishReason, TokenLogprob, Usage};

/// `usage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct UsageShape {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl UsageShape {
    pub(super) fn of(usage: Usage) -> Self {
        let (prompt_tokens, completion_tokens) = (usage.prompt_tokens.into(), usage.completion_tokens.into());
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cached_tokens.into() },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning_tokens.into() },
        }
    }
}

/// `logprobs` of a choice.
#[derive(Debug, Serialize)]
pub(super) struct LogprobsShape {
    content: Vec<LogprobShape>,
    refusal: (),
}

#[derive(Debug, Serialize)]
struct LogprobShape {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
    top_logprobs: Vec<TopShape>,
}

#[derive(Debug, Serialize)]
struct TopShape {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
}

impl LogprobsShape {
    pub(super) fn of(tokens: Vec<TokenLogprob>) -> Self {
        let content = tokens
            .into_iter()
            .map(|token| LogprobShape {
                token: token.token,
                logprob: finite(token.logprob),
                bytes: token.bytes,
                top_logprobs: token
                    .top
                    .into_iter()
                    .map(|(token, bytes, logprob)| TopShape { token, logprob: finite(logprob), bytes })
                    .collect(),
            })
            .collect();
        Self { content, refusal: () }
    }
}

/// JSON has no infinity; OpenAI writes -9999 for a token that can't be drawn.
fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { -9999.0 }
}

/// The name and arguments of a call; either may be absent in a chunk.
#[derive(Debug, Serialize)]
pub(super) struct FunctionShape {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) arguments: String,
}

pub(super) fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
    }
}
