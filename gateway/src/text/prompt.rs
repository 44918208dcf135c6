//! Prompt text that knows which of its bytes are control tokens.

use std::ops::Range;

/// A rendered prompt. Bytes inside `special` ranges are control tokens, each range one; everything else is plain text,
/// whatever it spells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    text: String,
    special: Vec<Range<usize>>,
}

impl Prompt {
    /// A prompt from its parts; `None` if the ranges overlap, are out of order or cut a character.
    #[must_use]
    pub fn from_parts(text: String, special: Vec<Range<usize>>) -> Option<Self> {
        let mut end = 0;
        for range in &special {
            if range.start < end || range.start >= range.end || text.get(range.clone()).is_none() {
                return None;
            }
            end = range.end;
        }
        Some(Self { text, special })
    }

    /// Appends plain text: nothing in it is a control token.
    pub fn push_plain(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends one control token by its spelling.
    pub fn push_special(&mut self, spelling: &str) {
        if !spelling.is_empty() {
            let start = self.text.len();
            self.text.push_str(spelling);
            self.special.push(start..self.text.len());
        }
    }

    /// The text, control tokens spelled out.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Byte ranges of control tokens, ascending and disjoint.
    #[must_use]
    pub fn special(&self) -> &[Range<usize>] {
        &self.special
    }

    /// The last characters of the text, at most `bytes` bytes.
    #[must_use]
    pub fn tail(&self, bytes: usize) -> &str {
        let mut start = self.text.len().saturating_sub(bytes);
        while !self.text.is_char_boundary(start) {
            start += 1;
        }
        &self.text[start..]
    }
}
