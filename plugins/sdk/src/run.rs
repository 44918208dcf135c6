//! Runs: stretches of a message in which most deltas mean what they say, so that no machine need be asked about them.

use crate::event::{Channel, Step};
use crate::json;
use crate::layout::Trim;
use crate::scan::{Markers, NO_STOPS, Stops};

/// Where the text of a run goes, and how it is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    Content,
    Reasoning,
    /// Arguments, escaped if it has to be.
    Raw,
    /// Arguments as it stands: the inside of a JSON string, or of another literal that is spelled the same.
    Literal(Escapes),
}

/// Which escapes a string literal shares with JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    /// None: a backslash is one.
    None,
    /// Those of one character.
    Json,
    /// Python's, as far as both mean the same.
    Python,
}

impl Escapes {
    fn has(self, byte: u8) -> bool {
        match self {
            Escapes::None => false,
            Escapes::Json => matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'),
            Escapes::Python => matches!(byte, b'"' | b'\\' | b'n' | b'r' | b't'),
        }
    }
}

/// Says of a delta that it is part of the run: it goes out whole, and the machine is where it was before. A delta that is not
/// part of it is the machine's to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    goes: Goes,
    /// Bytes that no part of the run has.
    stops: Stops,
    /// Characters that none ends with.
    trim: Trim,
    /// The machine wants to be told what has passed.
    kept: bool,
    /// What has passed ends within an escape.
    cut: bool,
    /// The call whose arguments these are.
    index: u32,
}

impl Run {
    fn new(goes: Goes, stops: Stops, trim: Trim) -> Run {
        Run { goes, stops, trim, kept: false, cut: false, index: 0 }
    }

    /// Text of a channel, up to where one of `markers` may begin. None if they can begin with too many bytes.
    pub fn text(channel: Channel, markers: Option<&Markers>, trim: Trim) -> Option<Run> {
        let goes = if channel == Channel::Content { Goes::Content } else { Goes::Reasoning };
        Some(Run::new(goes, markers.map_or(Some(NO_STOPS), Markers::stops)?, trim))
    }

    /// The text of a string, up to where one of `markers` may begin.
    pub fn raw(markers: &Markers, trim: Trim) -> Option<Run> {
        Some(Run::new(Goes::Raw, markers.stops()?, trim))
    }

    /// The inside of a string literal between quotes `quote`.
    pub fn literal(escapes: Escapes, quote: u8) -> Run {
        // JSON's own quote never stands there as it is.
        let stops = if quote == b'"' { NO_STOPS } else { [quote; 3] };
        Run::new(Goes::Literal(escapes), stops, Trim::Nothing)
    }

    /// The machine is told of what passes, if `kept`.
    pub fn kept(self, kept: bool) -> Run {
        Run { kept, ..self }
    }

    /// The arguments are those of call `index`.
    pub fn of_call(self, index: u32) -> Run {
        Run { index, ..self }
    }

    /// Only up to where one of `markers` may begin, too.
    pub fn up_to(self, markers: &Markers) -> Option<Run> {
        let mut stops = Vec::new();
        for byte in [self.stops, markers.stops()?].concat() {
            if byte != NO_STOPS[0] && !stops.contains(&byte) {
                stops.push(byte);
            }
        }
        let stops = match stops[..] {
            [] => NO_STOPS,
            [a] => [a; 3],
            [a, b] => [a, b, b],
            [a, b, c] => [a, b, c],
            _ => return None,
        };
        Some(Run { stops, ..self })
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }

    /// What has passed ends within an escape: the machine has to know it before it is asked.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// The run goes on where `before` was.
    pub(crate) fn behind(self, before: &Run) -> Run {
        Run { cut: before.cut, ..self }
    }

    /// What the push of `text` comes to, if it is part of the run.
    #[inline]
    pub(crate) fn step(&mut self, text: &str) -> Option<Step> {
        if text.is_empty() || self.trim != Trim::Nothing && text.ends_with(|c| self.trim.has(c)) {
            return None;
        }
        if self.stops != NO_STOPS && !is_clear(text.as_bytes(), self.stops) {
            return None;
        }
        match self.goes {
            Goes::Content => Some(Step::Pass(Channel::Content)),
            Goes::Reasoning => Some(Step::Pass(Channel::Reasoning)),
            Goes::Raw => Some(self.args(json::plain(text.as_bytes()) < text.len())),
            Goes::Literal(escapes) => {
                self.cut = inside(text.as_bytes(), escapes, self.cut)?;
                Some(self.args(false))
            }
        }
    }

    fn args(&self, escaped: bool) -> Step {
        Step::Args { index: self.index, escaped }
    }

    /// Like `step`, for a text of `length` bytes in `words`, little-endian. None as well if words alone can't tell.
    #[inline]
    #[cfg_attr(not(any(test, target_arch = "wasm32")), allow(dead_code, reason = "what a component is given"))]
    pub(crate) fn step_words(&self, words: &[u64; 8], length: usize) -> Option<Step> {
        let last = length.checked_sub(1)?;
        let end = (words.get(last / 8)? >> (last % 8 * 8)) as u8;
        if self.trim != Trim::Nothing && (!end.is_ascii() || self.trim.has(char::from(end))) {
            return None;
        }
        let (mut stopped, mut special) = (false, false);
        for (n, word) in words.iter().enumerate().take(last / 8 + 1) {
            // Behind the text stands what no text has, and what JSON does not escape.
            let behind = if n == last / 8 { u64::MAX << 8 << (last % 8 * 8) } else { 0 };
            let seen = look(word | behind, self.stops);
            (stopped, special) = (stopped | seen.0, special | seen.1);
        }
        if stopped && self.stops != NO_STOPS {
            return None;
        }
        match self.goes {
            Goes::Content => Some(Step::Pass(Channel::Content)),
            Goes::Reasoning => Some(Step::Pass(Channel::Reasoning)),
            Goes::Raw => Some(self.args(special)),
            Goes::Literal(_) => (!special && !self.cut).then(|| self.args(false)),
        }
    }
}

/// Whether there are `stops` in a word of text, and what JSON escapes. A byte minus one borrows from its high bit only if it
/// was zero.
#[inline]
fn look(word: u64, stops: Stops) -> (bool, bool) {
    const ONES: u64 = u64::MAX / 0xff;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & (ONES << 7);
    let has = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let [a, b, c] = stops;
    let stopped = has(a) | if a == b { 0 } else { has(b) | has(c) };
    (stopped != 0, (below(word, 0x20) | has(b'"') | has(b'\\')) != 0)
}

/// Without branches, which compilers turn into vector code; see [`json::plain`].
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
fn is_clear(bytes: &[u8], stops: Stops) -> bool {
    let [a, b, c] = stops;
    let mut found = false;
    for byte in bytes {
        found |= *byte == a || *byte == b || *byte == c;
    }
    !found
}

/// If all of `bytes` is the inside of a string literal and written the same in JSON: whether it ends within an escape, as `cut`
/// says of what stands before. Only JSON's may be cut: the backslash goes out before it is known what it escapes.
fn inside(bytes: &[u8], escapes: Escapes, cut: bool) -> Option<bool> {
    let mut rest = match bytes {
        [escape, later @ ..] if cut && escapes.has(*escape) => later,
        _ if cut => return None,
        _ => bytes,
    };
    loop {
        match &rest[json::plain(rest)..] {
            [] => return Some(false),
            [b'\\'] if escapes == Escapes::Json => return Some(true),
            [b'\\', escape, later @ ..] if escapes.has(*escape) => rest = later,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn runs() -> Vec<Run> {
        let markers = |all: &[&'static str]| Markers::new(all.iter().map(|text| (*text, 0)));
        let (one, three) = (markers(&["<tag>"]), markers(&["<a", "[b", "\u{ff5c}c"]));
        let mut runs = vec![
            Run::literal(Escapes::Json, b'"'),
            Run::literal(Escapes::Python, b'\''),
            Run::literal(Escapes::None, b'"'),
        ];
        for trim in [Trim::Nothing, Trim::Newlines, Trim::Whitespace] {
            let texts = [None, Some(&one), Some(&three)].map(|markers| Run::text(Channel::Content, markers, trim));
            runs.extend(texts.into_iter().chain([Run::raw(&one, trim), Run::raw(&three, trim)]).flatten());
            runs.extend(Run::literal(Escapes::Json, b'"').up_to(&three));
        }
        assert_eq!(runs.len(), 21);
        runs
    }

    proptest! {
        #[test]
        fn words_tell_what_the_text_tells(text in "([a-z \\PC]|[<\\[\n\"'\\\\n\u{a0}\u{85}\u{ff5c}\x00-\x1f]){1,20}") {
            let text = &text[..text.floor_char_boundary(64)];
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(64, 0);
            let mut words = [0; 8];
            words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
            for mut run in runs() {
                let (by_words, step) = (run.step_words(&words, text.len()), run.step(text));
                let told = by_words.is_some() || step.is_none() || !text.is_ascii() || text.contains('\\');
                prop_assert!(told && (by_words.is_none() || by_words == step), "{text:?}: {run:?}, {step:?}, {by_words:?}");
            }
        }
    }

    #[test]
    fn markers_of_many_beginnings_are_no_run() {
        let many = Markers::new(["a", "b", "c", "d"].map(|text| (text, 0)));
        assert_eq!(Run::raw(&many, Trim::Nothing), None);
        let two = Markers::new([("a", 0), ("b", 0)]);
        let mut run = Run::raw(&two, Trim::Nothing).unwrap();
        assert_eq!(run.up_to(&Markers::new([("c", 0), ("d", 0)])), None);
        assert!(run.up_to(&two).is_some_and(|mut both| both.step("ab").is_none() && both.step("cd").is_some()));
        assert_eq!(run.step(""), None);
        assert_eq!(run.step_words(&[0; 8], 0), None);
        assert_eq!(run.step_words(&[0; 8], 65), None);
    }
}
