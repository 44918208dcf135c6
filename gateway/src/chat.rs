//! The canonical chat request and its events: what every API is turned into and every upstream answers in.

use std::sync::Arc;

use serde_json::value::RawValue;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions (`system` and `developer`).
    System,
    /// The person or program that asks.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
    /// DeepSeek's `latest_reminder`: facts of the moment that history does not keep.
    LatestReminder,
}

impl Role {
    /// The role's name in the API and in chat templates.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::LatestReminder => "latest_reminder",
        }
    }
}

/// A tool call of an earlier assistant turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that its result refers to.
    pub id: String,
    /// Function name.
    pub name: String,
    /// JSON text of the arguments, byte for byte as the client sent it.
    pub arguments: String,
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text; parts of a list are kept apart. Empty when the client sent null.
    pub content: Vec<String>,
    /// An assistant turn's reasoning, when the client sends it back.
    pub reasoning: Option<String>,
    /// An assistant turn's calls.
    pub tool_calls: Vec<ToolCall>,
    /// For `Role::Tool`: the call that this answers.
    pub tool_call_id: Option<String>,
    /// Optional participant or function name.
    pub name: Option<String>,
}

/// A function that the model may call.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Function name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of the parameters, as the client wrote it.
    pub parameters: Option<Box<RawValue>>,
    /// Whether the client asked that arguments obey the schema.
    pub strict: bool,
}

/// Which tool, if any, the model must call.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No call.
    None,
    /// At least one call.
    Required,
    /// A call of this function.
    Named(String),
}

/// Whether the model reasons before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reasoning {
    /// Whatever the model's template does.
    #[default]
    Auto,
    /// Off.
    Off,
    /// On, at an effort the renderer understands.
    On(Option<Effort>),
}

/// `reasoning_effort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the API's")]
pub enum Effort {
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// `response_format` and `structured_outputs`: what the answer's text must look like.
#[derive(Clone, Debug, Default)]
pub enum ResponseFormat {
    /// Anything.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that obeys this schema, as the client wrote it.
    JsonSchema(Box<RawValue>),
    /// Text that this regular expression matches as a whole (vLLM's `structured_outputs.regex`).
    Regex(String),
    /// One of these texts (vLLM's `structured_outputs.choice`).
    Choice(Vec<String>),
    /// Text of this grammar, in llguidance's Lark dialect (vLLM's `structured_outputs.grammar`).
    Grammar(String),
}

/// A chat request, validated: ranges hold, tool results follow their calls.
#[derive(Clone, Debug)]
pub struct Request {
    /// The request's id, minted by the gateway.
    pub id: Arc<str>,
    /// Model name as the client wrote it.
    pub model: String,
    /// The conversation, not empty.
    pub messages: Vec<Message>,
    /// Declared tools.
    pub tools: Vec<Tool>,
    /// Tool choice.
    pub tool_choice: ToolChoice,
    /// Whether several calls in one turn are allowed.
    pub parallel_tool_calls: bool,
    /// Reasoning.
    pub reasoning: Reasoning,
    /// What the answer's text must look like.
    pub response_format: ResponseFormat,
    /// The last message is the start of the answer, to be continued (`continue_final_message`, DeepSeek's `prefix`).
    pub continue_final_message: bool,
    /// `chat_template_kwargs`, passed to the template.
    pub template_kwargs: serde_json::Map<String, serde_json::Value>,
    /// Sampling; the seed is filled in when the client gave none.
    pub sampling: sluicegate_backend::api::Sampling,
    /// `max_completion_tokens` or `max_tokens`; none: what the context leaves.
    pub max_tokens: Option<u32>,
    /// Stop strings.
    pub stop: Vec<String>,
    /// Number of choices.
    pub n: u32,
    /// Log probabilities with this many alternatives.
    pub logprobs: Option<u8>,
}

/// Log probability of one generated token, with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// Text of the token; incomplete UTF-8 is replaced, `bytes` has the truth.
    pub token: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// Alternatives: text, bytes, log probability.
    pub top: Vec<(String, Vec<u8>, f32)>,
}

/// Why a message ended, in the API's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its turn or a stop string matched.
    Stop,
    /// A token limit.
    Length,
    /// At least one complete call and a normal end.
    ToolCalls,
    /// The format said so.
    ContentFilter,
}

/// Token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Of these, from the prefix cache.
    pub cached_tokens: u32,
    /// Generated tokens, markup and stop token included.
    pub completion_tokens: u32,
    /// Of these, generated while the format was in its reasoning channel.
    pub reasoning_tokens: u32,
}

/// What one choice yields, in order; `Finish` is last, unless the stream ends with an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Visible text.
    Content(String),
    /// Reasoning text.
    Reasoning(String),
    /// A call begins. Name and id come once, here.
    ToolStart {
        /// 0, 1, 2... in this choice.
        index: u32,
        /// Unique id.
        id: String,
        /// Function name.
        name: String,
    },
    /// The next piece of a call's JSON arguments.
    ToolArgs {
        /// Which call.
        index: u32,
        /// Text to append.
        delta: String,
    },
    /// Log probabilities of the tokens since the last such event.
    Logprobs(Vec<TokenLogprob>),
    /// The end of this choice.
    Finish {
        /// Why.
        reason: FinishReason,
        /// Counts of this choice.
        usage: Usage,
    },
}
