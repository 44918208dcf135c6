//! A recorded case: what a model wrote, and what a client must see of it.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chat;
use crate::plugins::{StopCause, StreamConfig};

/// How two texts are compared.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Match {
    /// Equal.
    #[default]
    Exact,
    /// Equal but for whitespace at both ends.
    Trim,
    /// Begins with the expected text.
    Prefix,
    /// Anything.
    Any,
}

/// A call that is expected; arguments are compared as JSON values.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct ExpectedCall {
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// What the client must see.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Expect {
    pub(super) content: Option<String>,
    pub(super) reasoning: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Vec<ExpectedCall>,
    pub(super) finish_reason: String,
}

/// Another result that a defensible policy may give. Fields that are absent are as in the main expectation.
#[derive(Clone, Debug, Deserialize)]
struct Alternative {
    #[serde(default, deserialize_with = "present")]
    content: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    reasoning: Option<Option<String>>,
    tool_calls: Option<Vec<ExpectedCall>>,
    finish_reason: Option<String>,
    content_match: Option<Match>,
    reasoning_match: Option<Match>,
}

/// Tells `null` from absent.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// A truncated call may also appear, if nobody can take it for a whole one.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Partial {
    pub(super) name: String,
}

/// One case of a case file.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) format: String,
    #[serde(default)]
    tools: Vec<Tool>,
    /// The prompt has opened the reasoning block.
    #[serde(default)]
    thinking: bool,
    pub(super) chunks: Vec<String>,
    /// `stop` or `length`.
    pub(super) finish: String,
    pub(super) expect: Expect,
    #[serde(default)]
    pub(super) content_match: Match,
    #[serde(default)]
    pub(super) reasoning_match: Match,
    #[serde(default)]
    pub(super) args_text_contains: Vec<String>,
    #[serde(default)]
    tool_choice: Option<String>,
    #[serde(default)]
    pub(super) partial_ok: Option<Partial>,
    #[serde(default)]
    accept_also: Vec<Alternative>,
    #[serde(default)]
    pub(super) debatable: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct Tool {
    function: Function,
}

#[derive(Clone, Debug, Deserialize)]
struct Function {
    name: String,
    description: Option<String>,
    parameters: Option<Box<RawValue>>,
    #[serde(default)]
    strict: bool,
}

/// One way to be right.
pub(super) struct Accepted {
    pub(super) expect: Expect,
    pub(super) content_match: Match,
    pub(super) reasoning_match: Match,
}

impl Case {
    /// The name of the format; `reasoning:NAME` stands for NAME, tested for its reasoning.
    pub(super) fn format_name(&self) -> &str {
        self.format.strip_prefix("reasoning:").unwrap_or(&self.format)
    }

    pub(super) fn tools(&self) -> Vec<chat::Tool> {
        let tools = self.tools.iter().map(|tool| &tool.function);
        tools
            .map(|function| chat::Tool {
                name: function.name.clone(),
                description: function.description.clone(),
                parameters: function.parameters.clone(),
                strict: function.strict,
            })
            .collect()
    }

    pub(super) fn config(&self) -> StreamConfig {
        let tool_choice = match self.tool_choice.as_deref() {
            None | Some("auto") => chat::ToolChoice::Auto,
            Some("none") => chat::ToolChoice::None,
            Some("required") => chat::ToolChoice::Required,
            Some(name) => chat::ToolChoice::Named(name.to_owned()),
        };
        let reasoning = if self.thinking { chat::Reasoning::On(None) } else { chat::Reasoning::Off };
        StreamConfig { tool_choice, reasoning, ..StreamConfig::default() }
    }

    pub(super) fn cause(&self) -> StopCause {
        if self.finish == "length" { StopCause::Length } else { StopCause::Eos(None) }
    }

    /// The expectation, then the alternatives.
    pub(super) fn accepted(&self) -> Vec<Accepted> {
        let own = Accepted {
            expect: self.expect.clone(),
            content_match: self.content_match,
            reasoning_match: self.reasoning_match,
        };
        let others = self.accept_also.iter().map(|other| Accepted {
            expect: Expect {
                content: other.content.clone().unwrap_or_else(|| self.expect.content.clone()),
                reasoning: other.reasoning.clone().unwrap_or_else(|| self.expect.reasoning.clone()),
                tool_calls: other.tool_calls.clone().unwrap_or_else(|| self.expect.tool_calls.clone()),
                finish_reason: other.finish_reason.clone().unwrap_or_else(|| self.expect.finish_reason.clone()),
            },
            content_match: other.content_match.unwrap_or(self.content_match),
            reasoning_match: other.reasoning_match.unwrap_or(self.reasoning_match),
        });
        std::iter::once(own).chain(others).collect()
    }
}
