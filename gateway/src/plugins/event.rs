//! What a format plugin says about a piece of model output, in the gateway's own types.

use smallvec::SmallVec;

use crate::chat;

/// What a push brings out: nothing or one event nearly always, which then takes no memory of its own.
pub type Events = SmallVec<[Event; 1]>;

/// One thing that happened in the stream of one choice. Events are in order and never repeated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Visible text.
    Content(String),
    /// Reasoning text.
    Reasoning(String),
    /// A call begins. Indexes count 0, 1, 2... in one stream; the host checked that.
    ToolStart {
        /// Which call.
        index: u32,
        /// Only when the model wrote one or the format prescribes its shape; otherwise the caller mints one.
        id: Option<String>,
        /// Function name.
        name: String,
    },
    /// The next piece of the JSON text of a call's arguments.
    ToolArgs {
        /// Which call.
        index: u32,
        /// Text to append.
        delta: String,
    },
    /// The call is complete, and its joined arguments are one JSON object; the host checked that.
    ToolEnd {
        /// Which call.
        index: u32,
    },
    /// The plugin says the call is complete, but its arguments are not one JSON object. The call must not count as
    /// finished.
    ToolBroken {
        /// Which call.
        index: u32,
        /// Where the JSON goes wrong.
        reason: String,
    },
    /// The raw text of a call that turned out malformed; the route's policy says what the client sees of it.
    Malformed(String),
    /// The format says that the turn is over though the engine has not stopped.
    EndTurn,
    /// For operators; never shown to clients.
    Note(String),
    /// Growth without a change of types (citations, refusals...).
    Other {
        /// What it is.
        kind: String,
        /// JSON text, valid; the host checked that.
        data: String,
    },
}

impl Event {
    /// Bytes of text that this event carries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Content(text) | Self::Reasoning(text) | Self::Malformed(text) | Self::Note(text) => text.len(),
            Self::ToolStart { id, name, .. } => name.len() + id.as_ref().map_or(0, String::len),
            Self::ToolArgs { delta, .. } => delta.len(),
            Self::ToolBroken { reason, .. } => reason.len(),
            Self::Other { kind, data } => kind.len() + data.len(),
            Self::ToolEnd { .. } | Self::EndTurn => 0,
        }
    }

    /// Whether the event carries no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The end of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// What was still held back, and the closing of what was open.
    pub events: Vec<Event>,
    /// What the format thinks the API should report; none leaves it to the host.
    pub finish: Option<chat::FinishReason>,
}

/// Why the engine stopped, for [`super::Stream::finish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// An end-of-turn or end-of-sequence token; its id if known.
    Eos(Option<u32>),
    /// A stop string of the request or the format.
    StopString(String),
    /// A token limit.
    Length,
    /// Cut by the host, the client or an engine error: emit what is safe, complain about nothing.
    Aborted,
}

/// What a stream must know before its first text.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Model name as the client wrote it.
    pub model: String,
    /// Tool choice.
    pub tool_choice: chat::ToolChoice,
    /// Whether several calls in one turn are allowed.
    pub parallel_tools: bool,
    /// Reasoning.
    pub reasoning: chat::Reasoning,
    /// The end of the rendered prompt. Only the last 256 bytes are passed on, cut at a code point.
    pub prompt_tail: String,
    /// Tool calls that the conversation already holds.
    pub history_calls: u32,
    /// Ids of the descriptor's `special_tokens`, in its order; missing entries count as unknown.
    pub special_ids: Vec<Option<u32>>,
    /// The route's options for the format, JSON text that obeys `options_schema`; "{}" if none.
    pub options: String,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            model: String::new(),
            tool_choice: chat::ToolChoice::Auto,
            parallel_tools: true,
            reasoning: chat::Reasoning::Auto,
            prompt_tail: String::new(),
            history_calls: 0,
            special_ids: Vec::new(),
            options: "{}".to_owned(),
        }
    }
}
