//! A case as its file has it.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// How two texts are compared.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Match {
    /// Equal.
    #[default]
    Exact,
    /// Equal but for white space at both ends.
    Trim,
    /// Begins with the expected text.
    Prefix,
    /// Anything.
    Any,
}

/// A call that is expected; arguments are compared as JSON values.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct ExpectedCall {
    /// The function.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

/// What the client must see. `null`, absent and "" are the same.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Expect {
    /// The answer.
    pub content: Option<String>,
    /// The thinking.
    pub reasoning: Option<String>,
    /// The calls that end, in order.
    #[serde(default)]
    pub tool_calls: Vec<ExpectedCall>,
    /// `stop`, `length`, `tool_calls`; absent: any.
    pub finish_reason: Option<String>,
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
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// A truncated call may also appear, if nobody can take it for a whole one.
#[derive(Clone, Debug, Deserialize)]
pub struct Partial {
    /// The function.
    pub name: String,
}

/// One case.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Unique.
    pub id: String,
    /// Format name; `reasoning:NAME` names a format for its reasoning.
    pub format: String,
    /// OpenAI tool declarations.
    #[serde(default)]
    pub tools: Value,
    /// The prompt already opened the reasoning block.
    #[serde(default)]
    pub thinking: bool,
    /// Deltas in order.
    pub chunks: Vec<String>,
    /// `stop` or `length`.
    #[serde(default)]
    pub finish: String,
    /// See [`Expect`].
    pub expect: Expect,
    /// See [`Match`].
    #[serde(default)]
    pub content_match: Match,
    /// See [`Match`].
    #[serde(default)]
    pub reasoning_match: Match,
    /// Texts that the arguments must contain.
    #[serde(default)]
    pub args_text_contains: Vec<String>,
    /// `none`, `required` or a function's name, when it is not `auto`.
    #[serde(default)]
    pub tool_choice: Option<String>,
    /// See [`Partial`].
    #[serde(default)]
    pub partial_ok: Option<Partial>,
    #[serde(default)]
    accept_also: Vec<Alternative>,
    /// The truth is arguable.
    #[serde(default)]
    pub debatable: bool,
    /// What the case is about, and why its expectation is right.
    #[serde(default)]
    pub why: String,
}

/// One way to be right.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// What must be seen.
    pub expect: Expect,
    /// How content is compared.
    pub content_match: Match,
    /// How reasoning is compared.
    pub reasoning_match: Match,
}

/// The cases in `json`.
///
/// # Errors
/// It is not an array of cases.
pub fn load(json: &str) -> Result<Vec<Case>, serde_json::Error> {
    serde_json::from_str(json)
}

impl Case {
    /// The format that parses it.
    #[must_use]
    pub fn format_name(&self) -> &str {
        self.format.strip_prefix("reasoning:").unwrap_or(&self.format)
    }

    /// The token limit ended the message.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.finish == "length"
    }

    /// The expectation, then the alternatives.
    #[must_use]
    pub fn accepted(&self) -> Vec<Accepted> {
        let main = &self.expect;
        let own =
            Accepted { expect: main.clone(), content_match: self.content_match, reasoning_match: self.reasoning_match };
        let others = self.accept_also.iter().map(|other| Accepted {
            expect: Expect {
                content: other.content.clone().unwrap_or_else(|| main.content.clone()),
                reasoning: other.reasoning.clone().unwrap_or_else(|| main.reasoning.clone()),
                tool_calls: other.tool_calls.clone().unwrap_or_else(|| main.tool_calls.clone()),
                finish_reason: other.finish_reason.clone().or_else(|| main.finish_reason.clone()),
            },
            content_match: other.content_match.unwrap_or(self.content_match),
            reasoning_match: other.reasoning_match.unwrap_or(self.reasoning_match),
        });
        std::iter::once(own).chain(others).collect()
    }
}
