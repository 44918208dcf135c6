//! What a parser says: the events of `wit/format.wit` as native types.

/// Where text goes that belongs to no tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The answer.
    Content,
    /// The model's thinking.
    Reasoning,
}

/// One thing that happened in the model's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Answer text.
    Content(String),
    /// Thinking text.
    Reasoning(String),
    /// A tool call begins; `name` is whole and never sent again.
    ToolStart {
        /// 0, 1, 2... in order of appearance in this message.
        index: u32,
        /// Only if the model wrote one or the format prescribes its shape.
        id: Option<String>,
        /// The function's name.
        name: String,
    },
    /// The next piece of a call's JSON arguments.
    ToolArgs {
        /// Which call.
        index: u32,
        /// Text that is appended, never re-sent.
        delta: String,
    },
    /// The arguments of this call are complete.
    ToolEnd(u32),
    /// Raw text of a call that turned out malformed.
    Malformed(String),
    /// The turn is over though the engine goes on.
    EndTurn,
    /// For operators only.
    Note(String),
    /// Growth without a type change; `data` is JSON.
    Other {
        /// What it is.
        kind: String,
        /// JSON text.
        data: String,
    },
}

/// Result of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything is held back.
    Hold,
    /// Emit exactly what was pushed, on this channel.
    Pass(Channel),
    /// Emit what was pushed as the next piece of the arguments of the call that began last.
    Args {
        /// That call.
        index: u32,
        /// Written as the inside of a JSON string; see [`crate::json::escape_into`].
        escaped: bool,
    },
    /// Events in order; never empty.
    Events(Vec<Event>),
}

impl Step {
    /// The event that [`Step::Args`] stands for, when `text` was pushed.
    pub fn args(text: &str, index: u32, escaped: bool) -> Event {
        let mut delta = String::new();
        if escaped {
            crate::json::escape_into(text, &mut delta);
        } else {
            delta.push_str(text);
        }
        Event::ToolArgs { index, delta }
    }
}

/// Why the engine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// An end-of-sequence token; its id if known.
    Eos(Option<u32>),
    /// A stop string.
    StopString(String),
    /// The token limit.
    Length,
    /// Cut by the host, the client or an engine error.
    Aborted,
}

impl StopCause {
    /// True if the model (or a stop string) ended the message, so what is complete may stand.
    pub fn is_stop(&self) -> bool {
        matches!(self, StopCause::Eos(_) | StopCause::StopString(_))
    }
}

/// What the API should report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A natural end.
    Stop,
    /// The token limit.
    Length,
    /// At least one finished tool call.
    ToolCalls,
    /// Refused.
    ContentFilter,
    /// Anything else.
    Other(String),
}

/// The last events of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// In order.
    pub events: Vec<Event>,
    /// `None` lets the host decide.
    pub finish: Option<FinishReason>,
}
