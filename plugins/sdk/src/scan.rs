//! The marker scanner: finds the literals that are live in a state and says how much text must be held back.

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// No marker and no beginning of one: all of it is text.
    Text,
    /// The marker `id` at byte `at`, `len` bytes long.
    Marker {
        /// Start of the marker.
        at: usize,
        /// Its length in bytes.
        len: usize,
        /// As given to [`Markers::new`].
        id: u16,
    },
    /// From byte `at` on the text is a strict prefix of a marker.
    Partial {
        /// Start of the prefix.
        at: usize,
    },
}

/// The bytes that a marker can begin with, in the form that is fastest to look for.
#[derive(Clone, Debug)]
enum First {
    None,
    One(u8),
    Two(u8, u8),
    Three(u8, u8, u8),
    Many(Box<[bool; 256]>),
}

/// Up to three bytes, repeated where they are fewer.
pub(crate) type Stops = [u8; 3];

/// A byte that no text has.
pub(crate) const NO_STOPS: Stops = [0xff; 3];

/// A set of literals; the leftmost match wins, then the longest.
#[derive(Clone, Debug)]
pub struct Markers {
    literals: Vec<(Box<str>, u16)>,
    first: First,
}

impl Markers {
    /// The literals with their ids. Empty literals are left out.
    pub fn new<S: Into<Box<str>>>(literals: impl IntoIterator<Item = (S, u16)>) -> Markers {
        Markers::of(literals.into_iter().map(|(text, id)| (text.into(), id)).collect())
    }

    /// Apart from `new`, so that a component holds it once and not for every kind of iterator.
    fn of(mut literals: Vec<(Box<str>, u16)>) -> Markers {
        literals.retain(|(text, _)| !text.is_empty());
        // Longest first, so that the first full match is the longest one.
        literals.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let mut bytes: Vec<u8> = literals.iter().map(|(text, _)| text.as_bytes()[0]).collect();
        bytes.sort_unstable();
        bytes.dedup();
        let first = match bytes[..] {
            [] => First::None,
            [a] => First::One(a),
            [a, b] => First::Two(a, b),
            [a, b, c] => First::Three(a, b, c),
            _ => {
                let mut table = Box::new([false; 256]);
                bytes.iter().for_each(|b| table[usize::from(*b)] = true);
                First::Many(table)
            }
        };
        Markers { literals, first }
    }

    /// Where the next byte is that could begin a marker.
    #[inline]
    fn candidate(&self, bytes: &[u8]) -> Option<usize> {
        match &self.first {
            First::None => None,
            First::One(a) => memchr::memchr(*a, bytes),
            First::Two(a, b) => memchr::memchr2(*a, *b, bytes),
            First::Three(a, b, c) => memchr::memchr3(*a, *b, *c, bytes),
            First::Many(table) => bytes.iter().position(|b| table[usize::from(*b)]),
        }
    }

    /// The bytes that a marker can begin with, if they are three at most.
    pub(crate) fn stops(&self) -> Option<Stops> {
        match self.first {
            First::None => Some(NO_STOPS),
            First::One(a) => Some([a; 3]),
            First::Two(a, b) => Some([a, b, b]),
            First::Three(a, b, c) => Some([a, b, c]),
            First::Many(_) => None,
        }
    }

    /// True if no marker can begin anywhere in `text`: the hot path of plain text.
    #[inline]
    pub fn is_clear(&self, text: &str) -> bool {
        self.candidate(text.as_bytes()).is_none()
    }

    /// The first marker in `text`. With `last` no more text will come, so a beginning of a marker is text.
    pub fn find(&self, text: &str, last: bool) -> Hit {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(skip) = self.candidate(&bytes[at..]) {
            at += skip;
            match self.matches(&bytes[at..], last) {
                Hit::Text => at += 1,
                Hit::Partial { .. } => return Hit::Partial { at },
                Hit::Marker { len, id, .. } => return Hit::Marker { at, len, id },
            }
        }
        Hit::Text
    }

    /// Whether a marker stands at the very beginning of `text`.
    pub fn find_here(&self, text: &str, last: bool) -> Hit {
        self.matches(text.as_bytes(), last)
    }

    fn matches(&self, tail: &[u8], last: bool) -> Hit {
        for (literal, id) in &self.literals {
            match begins(tail, literal.as_bytes()) {
                Begins::Whole => return Hit::Marker { at: 0, len: literal.len(), id: *id },
                Begins::Part if !last && !tail.is_empty() => return Hit::Partial { at: 0 },
                Begins::Part | Begins::Not => {}
            }
        }
        Hit::Text
    }
}

/// How much of a literal stands at the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    Whole,
    /// All of the text is the beginning of it.
    Part,
    Not,
}

/// Compares by words: what slices compare by goes byte by byte on WebAssembly.
pub(crate) fn begins(text: &[u8], literal: &[u8]) -> Begins {
    let common = text.len().min(literal.len());
    let ((a, a_rest), (b, b_rest)) = (text[..common].as_chunks::<8>(), literal[..common].as_chunks::<8>());
    // Nearly all are told apart by their first byte.
    let first = text.first().zip(literal.first()).is_none_or(|(a, b)| a == b);
    let words = || a.iter().zip(b).all(|(a, b)| u64::from_le_bytes(*a) == u64::from_le_bytes(*b));
    if !first || !words() || a_rest.iter().zip(b_rest).any(|(a, b)| a != b) {
        return Begins::Not;
    }
    if common == literal.len() { Begins::Whole } else { Begins::Part }
}

/// The first of each.
pub(crate) fn distinct(mut all: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|marker| seen.insert(marker.clone()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Markers {
        Markers::new([("<tool_call>", 0), ("<think>", 1), ("<tool_call>\n{", 2)])
    }

    #[test]
    fn holds_every_strict_prefix() {
        let m = marks();
        for end in 1.."<think>".len() {
            let text = format!("a{}", &"<think>"[..end]);
            assert_eq!(m.find(&text, false), Hit::Partial { at: 1 }, "{text}");
            assert_eq!(m.find(&text, true), Hit::Text, "{text}");
        }
    }

    #[test]
    fn longest_wins_and_waits() {
        let m = marks();
        assert_eq!(m.find("<tool_call>", false), Hit::Partial { at: 0 });
        assert_eq!(m.find("<tool_call>", true), Hit::Marker { at: 0, len: 11, id: 0 });
        assert_eq!(m.find("<tool_call>x", false), Hit::Marker { at: 0, len: 11, id: 0 });
        assert_eq!(m.find("<tool_call>\n{", false), Hit::Marker { at: 0, len: 13, id: 2 });
    }

    #[test]
    fn false_starts_are_text() {
        let m = marks();
        assert_eq!(m.find("<<tool_calx <thin", false), Hit::Partial { at: 12 });
        assert_eq!(m.find("<<<< no", false), Hit::Text);
        assert!(m.is_clear("plain"));
    }
}
