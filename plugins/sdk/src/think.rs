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
    /// The markers may carry a checkpoint's suffix, `<think:6124c78e>`, read from the end of the prompt.
    pub suffix: bool,
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
    /// A block of tool calls interrupts reasoning, which goes on behind it up to its closer.
    pub resumes: bool,
}

impl Think {
    /// `<think>`...`</think>`, written by the model or opened by the prompt; a tool call ends it.
    pub const TAGS: Think = Think {
        open: &["<think>"],
        close: &["</think>"],
        suffix: false,
        label: "",
        begins: Begins::Outside,
        open_when_off: true,
        anywhere: false,
        drop_stray_close: false,
        calls_end_it: true,
        resumes: false,
    };

    /// Whether generation begins inside reasoning, and whether an opener at the start counts.
    pub fn begin(&self, config: &ParserConfig) -> (bool, bool) {
        let off = config.reasoning == ReasoningMode::Off;
        let opener = !off || self.open_when_off;
        let tail = config.prompt_tail.trim_end();
        let suffixed = self.suffix.then(|| tail.rfind('<').map(|at| &tail[at..])).flatten();
        let suffixed = suffixed.filter(|tag| tag.ends_with('>'));
        if suffixed.is_some_and(|tag| self.stems(self.open).any(|stem| tag.starts_with(&stem))) {
            return (true, true);
        }
        if suffixed.is_some_and(|tag| self.stems(self.close).any(|stem| tag.starts_with(&stem))) {
            return (false, self.open_when_off);
        }
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

    /// The spellings of a marker up to where a suffix begins: `<think:`.
    pub fn stems(&self, spellings: &'static [&'static str]) -> impl Iterator<Item = String> + use<> {
        let suffix = self.suffix;
        spellings.iter().filter(move |_| suffix).filter_map(|s| s.strip_suffix('>')).map(|s| format!("{s}:"))
    }
}
