//! Reasoning between a pair of markers: where it starts, what ends it.

use crate::config::{ParserConfig, ReasoningMode};

/// Where generation begins when the prompt does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Inside reasoning: the model never writes the opener itself.
    Inside,
    /// In content: reasoning begins with the opener.
    Outside,
}

/// The reasoning of a format.
#[derive(Clone, Copy, Debug)]
pub struct Think {
    /// Spellings that open reasoning; only at the very start of the message unless `anywhere`.
    pub open: &'static [&'static str],
    /// Spellings that end it.
    pub close: &'static [&'static str],
    /// Text after the opener that belongs to the marker (`thought\n`).
    pub label: &'static str,
    /// See [`Begins`].
    pub begins: Begins,
    /// The opener counts even when the request turned reasoning off.
    pub open_when_off: bool,
    /// Reasoning may begin in the middle of content, any number of times.
    pub anywhere: bool,
    /// A closer in content is dropped; otherwise it is text.
    pub drop_stray_close: bool,
    /// A block of tool calls ends reasoning.
    pub calls_end_it: bool,
}

impl Think {
    /// `<think>`...`</think>`, written by the model or opened by the prompt; a tool call ends it.
    pub const TAGS: Think = Think {
        open: &["<think>"],
        close: &["</think>"],
        label: "",
        begins: Begins::Outside,
        open_when_off: true,
        anywhere: false,
        drop_stray_close: false,
        calls_end_it: true,
    };

    /// Whether generation begins inside reasoning, and whether an opener at the start counts.
    pub fn begin(&self, config: &ParserConfig) -> (bool, bool) {
        let off = config.reasoning == ReasoningMode::Off;
        let opener = !off || self.open_when_off;
        let tail = config.prompt_tail.trim_end();
        if tail.is_empty() {
            let inside = match config.reasoning {
                ReasoningMode::On => true,
                ReasoningMode::Off => false,
                ReasoningMode::Auto => self.begins == Begins::Inside,
            };
            return (inside, opener);
        }
        if self.open.iter().any(|open| tail.ends_with(open))
            || (!self.label.is_empty() && tail.ends_with(self.label.trim_end()))
        {
            return (true, true);
        }
        if self.close.iter().any(|close| tail.ends_with(close)) {
            return (false, self.open_when_off);
        }
        (self.begins == Begins::Inside && !off, opener)
    }
}
