//! Events back to one message: what a client assembles from a stream, for unary answers and for checking formats.

use std::collections::BTreeMap;

use crate::chat::{Event, FinishReason, TokenLogprob, ToolCall, Usage};

/// A whole answer: what one choice's events add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Visible text; empty if there was none.
    pub content: String,
    /// Reasoning; empty if there was none.
    pub reasoning: String,
    /// Calls in order, incomplete ones included.
    pub tool_calls: Vec<ToolCall>,
    /// Log probabilities of the content's tokens, if they were asked for.
    pub logprobs: Vec<TokenLogprob>,
    /// Why it ended; none if it did not.
    pub finish_reason: Option<FinishReason>,
    /// Counts.
    pub usage: Usage,
}

/// Collects the messages of all choices.
#[derive(Debug, Default)]
pub struct Collector {
    choices: BTreeMap<u32, Message>,
}

impl Collector {
    /// Takes the next event of a choice.
    pub fn push(&mut self, choice: u32, event: Event) {
        let message = self.choices.entry(choice).or_default();
        match event {
            Event::Content(text) => message.content.push_str(&text),
            Event::Reasoning(text) => message.reasoning.push_str(&text),
            Event::ToolStart { id, name, .. } => {
                message.tool_calls.push(ToolCall { id, name, arguments: String::new() });
            }
            Event::ToolArgs { index, delta } => {
                if let Some(call) = message.tool_calls.get_mut(index as usize) {
                    call.arguments.push_str(&delta);
                }
            }
            Event::Logprobs(logprobs) => message.logprobs.extend(logprobs),
            Event::Finish { reason, usage } => {
                message.finish_reason = Some(reason);
                message.usage = usage;
            }
        }
    }

    /// The messages in the order of their choices.
    #[must_use]
    pub fn finish(self) -> Vec<Message> {
        self.choices.into_values().collect()
    }

    /// Counts of the whole request: the prompt once, the rest summed over choices.
    #[must_use]
    pub fn usage(&self) -> Usage {
        total(self.choices.values().map(|message| message.usage))
    }
}

/// Counts of a request from those of its choices.
#[must_use]
pub fn total(choices: impl IntoIterator<Item = Usage>) -> Usage {
    choices.into_iter().fold(Usage::default(), |sum, one| Usage {
        prompt_tokens: sum.prompt_tokens.max(one.prompt_tokens),
        cached_tokens: sum.cached_tokens.max(one.cached_tokens),
        completion_tokens: sum.completion_tokens + one.completion_tokens,
        reasoning_tokens: sum.reasoning_tokens + one.reasoning_tokens,
    })
}
