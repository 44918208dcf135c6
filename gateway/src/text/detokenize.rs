//! Token ids to text, one at a time: exact for any split of the ids, linear, and never half a character.

use std::sync::Arc;

use super::vocabulary::Vocabulary;

/// Turns the ids of one generation into text as they come. Bytes that belong to no character become one U+FFFD each; a
/// character split over tokens appears when its last byte does.
#[derive(Debug)]
pub struct Detokenizer {
    vocabulary: Arc<Vocabulary>,
    keep_special: bool,
    /// Bytes of a character that is not complete.
    pending: Vec<u8>,
    at_start: bool,
}

impl Detokenizer {
    /// A detokenizer at the start of a generation. Without `keep_special`, tokens flagged special have no text.
    #[must_use]
    pub fn new(vocabulary: Arc<Vocabulary>, keep_special: bool) -> Self {
        Self { vocabulary, keep_special, pending: Vec::with_capacity(16), at_start: true }
    }

    /// The table it reads.
    #[must_use]
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Appends to `out` the text that this token completes.
    pub fn push(&mut self, id: u32, out: &mut String) {
        if !self.keep_special && self.vocabulary.is_special(id) {
            return;
        }
        let mut bytes = self.vocabulary.bytes(id);
        if bytes.is_empty() {
            return;
        }
        if self.at_start {
            self.at_start = false;
            if self.vocabulary.strips_first_space() {
                bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
            }
        }
        // Most tokens are whole characters and follow whole characters.
        if self.pending.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            out.push_str(text);
            return;
        }
        self.pending.extend_from_slice(bytes);
        let kept = decode(&self.pending, out);
        self.pending.drain(..self.pending.len() - kept);
    }

    /// Releases the bytes of a character that never became complete.
    pub fn finish(&mut self, out: &mut String) {
        out.extend(self.pending.drain(..).map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// Decodes all but an incomplete character at the end, whose length is returned.
fn decode(mut bytes: &[u8], out: &mut String) -> usize {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                out.push_str(text);
                return 0;
            }
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                // The first part was just found valid, so nothing is lost.
                out.push_str(&String::from_utf8_lossy(valid));
                let Some(invalid) = error.error_len() else { return rest.len() };
                out.extend((0..invalid).map(|_| char::REPLACEMENT_CHARACTER));
                bytes = &rest[invalid..];
            }
        }
    }
}
