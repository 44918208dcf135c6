//! Free text before a grammar begins: it ends with a text that is looked for in what is generated.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::text::Vocabulary;

/// The text that opens a grammar. The text may end inside a token; what follows it there must fit the grammar.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) text: Vec<u8>,
    /// The text is a part of the grammar, not of what comes before it.
    pub(super) included: bool,
    /// Generation may end without it.
    pub(super) may_end: bool,
    /// Per number of the text's bytes that are there already: tokens that complete it and go on, with where their rest begins.
    completing: OnceLock<Vec<Vec<(u32, usize)>>>,
    /// Whether the grammar can go on with such a rest.
    fits: Mutex<HashMap<Vec<u8>, bool>>,
}

impl Gate {
    fn new(text: &str, included: bool, may_end: bool) -> Self {
        Self { text: text.as_bytes().to_vec(), included, may_end, completing: OnceLock::new(), fits: Mutex::default() }
    }

    /// The grammar begins behind the text, which must come.
    pub(super) fn after(text: &str) -> Self {
        Self::new(text, false, false)
    }

    /// The grammar begins with the text, which need not come.
    pub(super) fn triggered(text: &str) -> Self {
        Self::new(text, true, true)
    }

    /// Where the text ends in `tail` + `new`, counted from the start of `new`; `tail` holds no whole text.
    pub(super) fn end_in(&self, tail: &[u8], new: &[u8]) -> Option<usize> {
        let joined = [tail, new].concat();
        let at = joined.windows(self.text.len()).position(|window| window == self.text)?;
        Some(at + self.text.len() - tail.len())
    }

    /// Keeps as much of the end as may be the text's beginning.
    pub(super) fn trim(&self, tail: &mut Vec<u8>) {
        let keep = self.text.len().saturating_sub(1).min(tail.len());
        tail.drain(..tail.len() - keep);
    }

    /// Tokens after `tail` that complete the text and go on with a rest that `fits` refuses.
    pub(super) fn refused(&self, vocabulary: &Vocabulary, tail: &[u8], fits: impl Fn(&[u8]) -> bool) -> Vec<u32> {
        let completing = self.completing.get_or_init(|| self.find_completing(vocabulary));
        let mut known = self.fits.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refused = Vec::new();
        for (there, completing) in completing.iter().enumerate().take(self.text.len()) {
            if !tail.ends_with(&self.text[..there]) {
                continue;
            }
            for &(id, from) in completing {
                let rest = &vocabulary.bytes(id)[from..];
                let fits = match known.get(rest) {
                    Some(fits) => *fits,
                    None => *known.entry(rest.to_vec()).or_insert(fits(rest)),
                };
                if !fits {
                    refused.push(id);
                }
            }
        }
        refused
    }

    fn find_completing(&self, vocabulary: &Vocabulary) -> Vec<Vec<(u32, usize)>> {
        let mut found = vec![Vec::new(); self.text.len().max(1)];
        #[allow(clippy::cast_possible_truncation, reason = "no vocabulary reaches u32")]
        for id in 0..vocabulary.len() as u32 {
            let bytes = vocabulary.bytes(id);
            if let Some(end) = self.end_in(&[], bytes).filter(|end| *end < bytes.len()) {
                found[0].push((id, end));
            }
            for (there, found) in found.iter_mut().enumerate().skip(1) {
                let missing = &self.text[there..];
                if bytes.len() > missing.len() && bytes.starts_with(missing) {
                    found.push((id, missing.len()));
                }
            }
        }
        found
    }
}
