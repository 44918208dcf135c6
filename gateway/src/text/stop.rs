//! Stop strings over streamed text: nothing of a stop string is ever let through, nothing else is held longer than it must.

use std::sync::Arc;

/// One stop string with its failure table (Knuth, Morris and Pratt).
#[derive(Debug)]
struct Pattern {
    bytes: Box<[u8]>,
    /// For each length of a matched prefix, the next shorter prefix that is also its suffix.
    fallback: Box<[usize]>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let bytes: Box<[u8]> = text.as_bytes().into();
        let mut fallback = vec![0; bytes.len() + 1];
        let mut matched = 0;
        for at in 1..bytes.len() {
            while matched > 0 && bytes[at] != bytes[matched] {
                matched = fallback[matched];
            }
            matched += usize::from(bytes[at] == bytes[matched]);
            fallback[at + 1] = matched;
        }
        Self { bytes, fallback: fallback.into() }
    }

    /// The longest prefix matched after one more byte; the whole length is a match.
    fn step(&self, mut matched: usize, byte: u8) -> usize {
        while matched > 0 && self.bytes[matched] != byte {
            matched = self.fallback[matched];
        }
        matched + usize::from(self.bytes[matched] == byte)
    }
}

/// The stop strings of a request, prepared once and shared by its choices.
#[derive(Clone, Debug, Default)]
pub struct StopStrings(Arc<[Pattern]>);

impl StopStrings {
    /// Prepares stop strings; empty ones are ignored.
    pub fn new<S: AsRef<str>>(strings: impl IntoIterator<Item = S>) -> Self {
        Self(strings.into_iter().filter(|s| !s.as_ref().is_empty()).map(|s| Pattern::new(s.as_ref())).collect())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A scanner at the start of a text.
    #[must_use]
    pub fn scanner(&self) -> StopScanner {
        StopScanner { matched: vec![0; self.0.len()], patterns: self.clone(), held: String::new() }
    }
}

/// Looks for the first stop string in a text that comes in pieces. Time is linear in the text for each stop string.
#[derive(Debug)]
pub struct StopScanner {
    patterns: StopStrings,
    matched: Vec<usize>,
    /// Text that may yet turn out to be the beginning of a stop string.
    held: String,
}

impl StopScanner {
    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Takes the next piece and appends to `out` what is certainly not part of a stop string. Returns the stop string that
    /// was completed first, if one was; what came after it is dropped and the scan is over.
    pub fn push(&mut self, text: &str, out: &mut String) -> Option<String> {
        if self.patterns.is_empty() {
            out.push_str(text);
            return None;
        }
        let start = self.held.len();
        self.held.push_str(text);
        for at in start..self.held.len() {
            let byte = self.held.as_bytes()[at];
            let mut longest = 0;
            for (matched, pattern) in self.matched.iter_mut().zip(self.patterns.0.iter()) {
                *matched = pattern.step(*matched, byte);
                if *matched == pattern.bytes.len() {
                    longest = longest.max(*matched);
                    *matched = pattern.fallback[*matched];
                }
            }
            if longest > 0 {
                let from = at + 1 - longest;
                out.push_str(&self.held[..from]);
                let stop = self.held[from..=at].to_owned();
                self.reset();
                return Some(stop);
            }
        }
        let keep = self.matched.iter().copied().max().unwrap_or(0);
        let release = self.held.len() - keep;
        out.push_str(&self.held[..release]);
        self.held.drain(..release);
        None
    }

    /// Releases what is held: the text is over, or something came between that no stop string can span.
    pub fn flush(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.reset();
    }

    fn reset(&mut self) {
        self.held.clear();
        self.matched.fill(0);
    }
}
