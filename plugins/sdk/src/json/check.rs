//! An incremental JSON checker: copies what is valid, repairs what is safe, stops at the first error.
//!
//! Numbers, spacing and key order stay as the model wrote them. Two repairs are made, because models break these
//! rules and only one reading exists: a raw control character in a string is escaped, and a backslash before a
//! character that needs none (`\d`) is doubled.

use crate::run::{Escapes, Run};

/// How deep arrays and objects may nest.
const MAX_DEPTH: usize = 256;

/// What feeding text did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// All of it belongs to the value, which goes on.
    More,
    /// The value is complete; that many bytes belonged to it.
    Done(usize),
    /// Not JSON; that many bytes were still valid.
    Bad(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value must come.
    Value,
    /// After `[`: a value or `]`.
    FirstItem,
    /// After `{`: a key or `}`.
    FirstKey,
    /// After `,` in an object.
    Key,
    Colon,
    /// After a value inside a container.
    After,
    Text,
    Escape,
    /// That many hexadecimal digits of `\u` are left.
    Hex(u8),
    Number(Number),
    /// Inside `true`, `false` or `null`: the rest of the word.
    Word(&'static str),
    Done,
}

/// Where in a number the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Dot,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Number {
    fn next(self, byte: u8) -> Option<Number> {
        use Number::{Dot, Exponent, Fraction, Minus, Power, Sign, Whole, Zero};
        Some(match (self, byte) {
            (Minus, b'0') => Zero,
            (Minus, b'1'..=b'9') | (Whole, b'0'..=b'9') => Whole,
            (Zero | Whole, b'.') => Dot,
            (Dot | Fraction, b'0'..=b'9') => Fraction,
            (Zero | Whole | Fraction, b'e' | b'E') => Exponent,
            (Exponent, b'+' | b'-') => Sign,
            (Exponent | Sign | Power, b'0'..=b'9') => Power,
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        matches!(self, Number::Zero | Number::Whole | Number::Fraction | Number::Power)
    }
}

/// Reads one JSON value piece by piece.
#[derive(Clone, Debug)]
pub struct Checker {
    state: State,
    /// True for an object, false for an array.
    stack: Vec<bool>,
    /// The string being read is a key.
    in_key: bool,
}

impl Default for Checker {
    fn default() -> Self {
        Checker { state: State::Value, stack: Vec::new(), in_key: false }
    }
}

impl Checker {
    /// True while inside a string.
    pub fn in_text(&self) -> bool {
        matches!(self.state, State::Text | State::Escape | State::Hex(_))
    }

    /// True once the value is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// True if the value would be complete were nothing to follow (a number at the end of the text).
    pub fn may_end(&self) -> bool {
        match self.state {
            State::Done => true,
            State::Number(n) => self.stack.is_empty() && n.may_end(),
            _ => false,
        }
    }

    /// The inside of the string being read, as far as it needs no repair.
    pub(crate) fn run(&self) -> Option<Run> {
        (self.state == State::Text).then(|| Run::literal(Escapes::Json, b'"'))
    }

    /// The run ended within an escape.
    pub(crate) fn cut(&mut self) {
        self.state = State::Escape;
    }

    /// Reads `text`, appending what is valid to `out`.
    pub fn feed(&mut self, text: &str, out: &mut String) -> Fed {
        let bytes = text.as_bytes();
        if out.is_empty() {
            out.reserve_exact(text.len());
        }
        // Copied up to here; repairs move it.
        let mut copied = 0;
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Text {
                at += super::text::plain(&bytes[at..]);
                if at == bytes.len() {
                    break;
                }
            }
            let byte = bytes[at];
            match self.step(byte) {
                Some(Act::Keep) => at += 1,
                Some(Act::Replace(with)) => {
                    out.push_str(&text[copied..at]);
                    super::escape_into(with, out);
                    at += 1;
                    copied = at;
                }
                Some(Act::Double) => {
                    // The backslash is copied; a second one makes it literal, then the byte is read as text.
                    out.push_str(&text[copied..at]);
                    out.push('\\');
                    copied = at;
                    self.state = State::Text;
                }
                Some(Act::EndBefore) => {
                    out.push_str(&text[copied..at]);
                    return Fed::Done(at);
                }
                None => {
                    out.push_str(&text[copied..at]);
                    return Fed::Bad(at);
                }
            }
            if self.state == State::Done {
                out.push_str(&text[copied..at]);
                return Fed::Done(at);
            }
        }
        out.push_str(&text[copied..]);
        Fed::More
    }

    fn step(&mut self, byte: u8) -> Option<Act> {
        match self.state {
            State::Text => return self.text(byte),
            State::Escape => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.state = State::Text,
                b'u' => self.state = State::Hex(4),
                _ => return Some(Act::Double),
            },
            State::Hex(left) if byte.is_ascii_hexdigit() => {
                self.state = if left == 1 { State::Text } else { State::Hex(left - 1) };
            }
            State::Number(number) => match number.next(byte) {
                Some(next) => self.state = State::Number(next),
                None if number.may_end() => {
                    self.end_value();
                    if self.state == State::Done {
                        return Some(Act::EndBefore);
                    }
                    return self.step(byte);
                }
                None => return None,
            },
            State::Word(rest) => {
                if rest.as_bytes()[0] != byte {
                    return None;
                }
                if rest.len() == 1 { self.end_value() } else { self.state = State::Word(&rest[1..]) }
            }
            State::Hex(_) | State::Done => return None,
            _ => return self.structure(byte),
        }
        Some(Act::Keep)
    }

    fn text(&mut self, byte: u8) -> Option<Act> {
        match byte {
            b'"' if self.in_key => {
                self.in_key = false;
                self.state = State::Colon;
            }
            b'"' => self.end_value(),
            b'\\' => self.state = State::Escape,
            0..0x20 => return Some(Act::Replace(CONTROL[usize::from(byte)])),
            _ => {}
        }
        Some(Act::Keep)
    }

    fn structure(&mut self, byte: u8) -> Option<Act> {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return Some(Act::Keep);
        }
        match (self.state, byte) {
            (State::FirstItem, b']') => self.close(),
            (State::Value | State::FirstItem, _) => self.open_value(byte)?,
            (State::FirstKey, b'}') => self.close(),
            (State::FirstKey | State::Key, b'"') => {
                self.in_key = true;
                self.state = State::Text;
            }
            (State::Colon, b':') => self.state = State::Value,
            (State::After, b',') => {
                self.state = if *self.stack.last()? { State::Key } else { State::Value };
            }
            (State::After, b'}') if *self.stack.last()? => self.close(),
            (State::After, b']') if !*self.stack.last()? => self.close(),
            _ => return None,
        }
        Some(Act::Keep)
    }

    fn open_value(&mut self, byte: u8) -> Option<()> {
        self.state = match byte {
            b'{' | b'[' => {
                if self.stack.len() == MAX_DEPTH {
                    return None;
                }
                self.stack.push(byte == b'{');
                if byte == b'{' { State::FirstKey } else { State::FirstItem }
            }
            b'"' => State::Text,
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Whole),
            b't' => State::Word("rue"),
            b'f' => State::Word("alse"),
            b'n' => State::Word("ull"),
            _ => return None,
        };
        Some(())
    }

    fn close(&mut self) {
        self.stack.pop();
        self.end_value();
    }

    fn end_value(&mut self) {
        self.state = if self.stack.is_empty() { State::Done } else { State::After };
    }
}

enum Act {
    Keep,
    /// Write this text, escaped, instead.
    Replace(&'static str),
    /// The backslash before this byte must be doubled.
    Double,
    /// The value ended before this byte.
    EndBefore,
}

/// One-character strings of the control characters.
const CONTROL: [&str; 32] = [
    "\0", "\x01", "\x02", "\x03", "\x04", "\x05", "\x06", "\x07", "\x08", "\t", "\n", "\x0b", "\x0c", "\r", "\x0e",
    "\x0f", "\x10", "\x11", "\x12", "\x13", "\x14", "\x15", "\x16", "\x17", "\x18", "\x19", "\x1a", "\x1b", "\x1c",
    "\x1d", "\x1e", "\x1f",
];

/// True if `text` is exactly one JSON value, spaces around it allowed.
pub fn is_value(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// `text` as one JSON object with the safe repairs, `None` if it is not one.
pub fn object_text(text: &str) -> Option<String> {
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    (Checker::default().feed(text, &mut out) == Fed::Done(text.len())).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `text` split at `at`.
    fn run(text: &str, at: usize) -> (Fed, String) {
        let mut checker = Checker::default();
        let mut out = String::new();
        match checker.feed(&text[..at], &mut out) {
            Fed::More => {
                let fed = match checker.feed(&text[at..], &mut out) {
                    Fed::Done(n) => Fed::Done(at + n),
                    Fed::Bad(n) => Fed::Bad(at + n),
                    Fed::More => Fed::More,
                };
                (fed, out)
            }
            end => (end, out),
        }
    }

    #[test]
    fn agrees_with_serde_json_at_every_split() {
        let texts = [
            "{}",
            "[]",
            "[1,2]",
            "{\"a\": [1.50, -0, 1e9, true, null], \"b\": {\"c\": \"\\u00e9\\n\"}}",
            "{\"a\" 1}",
            "[1,]",
            "{\"a\":1,}",
            "[01]",
            "[1.]",
            "[-]",
            "nul",
            "\"x\"",
            "[\"a\\ud83d\"]",
            "{]",
            "[}",
        ];
        for text in texts {
            let whole = format!("{text} ");
            for at in 0..=text.len() {
                let (fed, out) = run(&whole, at);
                let ok = fed == Fed::Done(text.len());
                // serde_json also rejects lone surrogates, which JSON allows.
                if !text.contains("ud83d") {
                    assert_eq!(ok, is_value(text), "{text} split at {at}: {fed:?}");
                }
                if ok {
                    assert_eq!(out, text);
                }
            }
        }
    }

    #[test]
    fn repairs_are_valid_and_the_same_at_every_split() {
        let text = "{\"re\": \"\\d+\n\tq\\'\"}";
        let want = "{\"re\": \"\\\\d+\\n\\tq\\\\'\"}";
        for at in 0..=text.len() {
            assert_eq!(run(text, at), (Fed::Done(text.len()), want.to_string()), "{at}");
        }
        assert!(is_value(want));
    }

    #[test]
    fn what_passes_is_what_feeding_gives() {
        let text = "{\"a\\\"b\": \"\u{e9}\\u00e9 \\d\n more than a block of it, {}[]\", \"c\": [\"x\"]}";
        let mut passed = 0;
        for (start, _) in text.char_indices() {
            let mut checker = Checker::default();
            assert_eq!(checker.feed(&text[..start], &mut String::new()), Fed::More);
            let ends = text[start..].char_indices().map(|(n, c)| start + n + c.len_utf8());
            for piece in ends.map(|end| &text[start..end]) {
                let (mut fed, mut out, mut checker) = (checker.clone(), String::new(), checker.clone());
                let cut = checker.run().and_then(|mut run| run.step(piece).map(|_| run.is_cut()));
                let Some(cut) = cut else { continue };
                cut.then(|| checker.cut());
                assert_eq!((fed.feed(piece, &mut out), out.as_str()), (Fed::More, piece));
                assert_eq!(format!("{fed:?}"), format!("{checker:?}"), "{piece:?}");
                passed += 1;
            }
        }
        assert!(passed > 100, "{passed}");
    }

    #[test]
    fn depth_is_bounded() {
        assert!(matches!(run(&"[".repeat(400), 0).0, Fed::Bad(256)));
    }
}
