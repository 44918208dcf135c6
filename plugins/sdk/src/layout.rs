//! How a format lays out its text: which white space is none of it, and what becomes of text behind calls.

/// Which characters are layout at the edge of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// None: the text is verbatim.
    Nothing,
    /// Line feeds.
    Newlines,
    /// Any white space.
    Whitespace,
}

impl Trim {
    #[inline]
    pub(crate) fn has(self, c: char) -> bool {
        match self {
            Trim::Nothing => false,
            Trim::Newlines => c == '\n',
            Trim::Whitespace => c.is_whitespace(),
        }
    }
}

/// What becomes of text that follows a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterCalls {
    /// Dropped with a note: models write made-up results there.
    #[default]
    Drop,
    /// Content.
    Content,
}

/// How a format lays out its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Dropped from the end of content before a block of calls.
    pub before_calls: Trim,
    /// Dropped from both ends of reasoning.
    pub reasoning: Trim,
    /// Dropped from the start of content that follows reasoning.
    pub after_reasoning: Trim,
}

impl Layout {
    /// Only line feeds are layout.
    pub const NEWLINES: Layout =
        Layout { before_calls: Trim::Newlines, reasoning: Trim::Newlines, after_reasoning: Trim::Newlines };
    /// All white space is layout before calls, line feeds elsewhere.
    pub const LOOSE: Layout =
        Layout { before_calls: Trim::Whitespace, reasoning: Trim::Newlines, after_reasoning: Trim::Newlines };
    /// All text is verbatim.
    pub const VERBATIM: Layout =
        Layout { before_calls: Trim::Nothing, reasoning: Trim::Nothing, after_reasoning: Trim::Nothing };
}
