//! Turns the gateway's types into the contract's.

use super::bindings::{parse, types as wit};
use super::descriptor::Descriptor;
use super::event::{StopCause, StreamConfig};
use crate::chat;

/// Longest `prompt-tail` that the contract allows, in bytes.
const MAX_PROMPT_TAIL: usize = 256;

pub(super) fn config(format: &Descriptor, config: &StreamConfig) -> parse::ParserConfig {
    let specials = format
        .special_tokens
        .iter()
        .enumerate()
        .map(|(n, text)| parse::SpecialToken { text: text.clone(), id: config.special_ids.get(n).copied().flatten() });
    parse::ParserConfig {
        format: format.name.clone(),
        model: config.model.clone(),
        tool_choice: choice(&config.tool_choice),
        parallel_tools: config.parallel_tools,
        reasoning: reasoning(config.reasoning),
        prompt_tail: prompt_tail(&config.prompt_tail),
        history_calls: config.history_calls,
        special_tokens: specials.collect(),
        options: if config.options.is_empty() { "{}".to_owned() } else { config.options.clone() },
    }
}

pub(super) fn choice(choice: &chat::ToolChoice) -> wit::ToolChoice {
    match choice {
        chat::ToolChoice::Auto => wit::ToolChoice::Auto,
        chat::ToolChoice::None => wit::ToolChoice::None,
        chat::ToolChoice::Required => wit::ToolChoice::Required,
        chat::ToolChoice::Named(name) => wit::ToolChoice::Named(name.clone()),
    }
}

pub(super) fn reasoning(reasoning: chat::Reasoning) -> wit::ReasoningMode {
    match reasoning {
        chat::Reasoning::Auto => wit::ReasoningMode::Auto,
        chat::Reasoning::Off => wit::ReasoningMode::Off,
        chat::Reasoning::On(_) => wit::ReasoningMode::On,
    }
}

pub(super) fn cause(cause: &StopCause) -> wit::StopCause {
    match cause {
        StopCause::Eos(id) => wit::StopCause::Eos(*id),
        StopCause::StopString(text) => wit::StopCause::StopString(text.clone()),
        StopCause::Length => wit::StopCause::Length,
        StopCause::Aborted => wit::StopCause::Aborted,
    }
}

/// The last 256 bytes at most, cut at a code point.
pub(super) fn prompt_tail(text: &str) -> String {
    let cut = text.len().saturating_sub(MAX_PROMPT_TAIL);
    text[text.ceil_char_boundary(cut)..].to_owned()
}
