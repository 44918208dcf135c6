//! Python literals to JSON, piece by piece.

use super::text::{Text, Took};
use crate::json::Fed;
use crate::limit::limit;
use crate::run::Run;

/// How deep literals may nest.
const MAX_DEPTH: usize = 128;
/// Longest text behind an opening brace: what follows it tells a dict from a set.
const MAX_FIRST: usize = limit(1 << 16);
/// The bracket that is due in a set.
const SET: char = 's';

#[derive(Clone, Debug)]
enum State {
    /// A value must come, or the end of the container if `may_close`.
    Value {
        may_close: bool,
    },
    /// A key of a dict must come, or its end.
    Key,
    /// Behind an opening brace.
    Brace,
    /// Behind the first text in braces.
    First,
    Colon,
    /// Behind a value in a container.
    After,
    /// A word or a string prefix.
    Word(String),
    Number(String),
    Text {
        text: Text,
        role: Role,
    },
    Done,
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Value,
    Key,
    /// A key or the first element of a set.
    First,
}

/// Reads one Python literal. Strings, numbers, True, False, None (and their JSON spellings), lists, tuples, dicts.
#[derive(Clone, Debug)]
pub struct Transcoder {
    state: State,
    /// The closing brackets that are due.
    stack: Vec<char>,
    /// A comma is due before the next element: Python allows one at the end, JSON does not.
    comma: bool,
    /// The first text in braces.
    first: String,
}

impl Default for Transcoder {
    fn default() -> Self {
        Transcoder { state: State::Value { may_close: false }, stack: Vec::new(), comma: false, first: String::new() }
    }
}

/// What a character did.
enum Did {
    Took,
    /// Look at it again in the new state.
    Again,
    Bad,
}

impl Transcoder {
    /// The inside of the string being read, as far as it means the same in JSON.
    pub(super) fn run(&self) -> Option<Run> {
        match &self.state {
            State::Text { text: literal, role: Role::Value | Role::Key } => literal.run(),
            _ => None,
        }
    }

    /// Reads `text`, appending JSON to `out`.
    pub fn feed(&mut self, text: &str, out: &mut String) -> Fed {
        if out.is_empty() {
            out.reserve_exact(text.len());
        }
        let mut at = 0;
        while at < text.len() {
            // Most of a string means itself.
            if let State::Text { text: literal, role } = &self.state {
                let rest = &text[at..];
                let (to, room) = match role {
                    Role::First => (&mut self.first, MAX_FIRST),
                    _ => (&mut *out, usize::MAX),
                };
                let run = rest.floor_char_boundary(literal.plain(rest).min(room.saturating_sub(to.len())));
                to.push_str(&rest[..run]);
                at += run;
            }
            let Some(c) = text[at..].chars().next() else { break };
            loop {
                match self.take(c, out) {
                    Did::Bad => return Fed::Bad(at),
                    Did::Took => break,
                    Did::Again if matches!(self.state, State::Done) => return Fed::Done(at),
                    Did::Again => {}
                }
            }
            at += c.len_utf8();
            if matches!(self.state, State::Done) {
                return Fed::Done(at);
            }
        }
        Fed::More
    }

    fn take(&mut self, c: char, out: &mut String) -> Did {
        match &mut self.state {
            State::Text { text, role } => {
                let role = *role;
                let to = if role == Role::First { &mut self.first } else { &mut *out };
                match text.take(c, to) {
                    Took::More if role == Role::First && to.len() > MAX_FIRST => return Did::Bad,
                    Took::More => return Did::Took,
                    took => {
                        to.push('"');
                        self.end_text(role);
                        return if took == Took::Last { Did::Took } else { Did::Again };
                    }
                }
            }
            State::Number(number) => {
                let exponent = number.ends_with(['e', 'E']) && matches!(c, '+' | '-');
                if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || exponent {
                    number.push(c);
                    return Did::Took;
                }
                let Some(json) = number_json(number) else { return Did::Bad };
                out.push_str(&json);
                self.end_value();
                return Did::Again;
            }
            State::Word(word) => {
                if c.is_alphanumeric() || c == '_' {
                    word.push(c);
                    return if word.len() > 16 { Did::Bad } else { Did::Took };
                }
                if matches!(c, '"' | '\'') && word.len() <= 2 {
                    let raw = word.contains(['r', 'R']);
                    let plain = word.chars().all(|p| "rRbBuUfF".contains(p));
                    return if plain { self.open_text(c, raw, out) } else { Did::Bad };
                }
                out.push_str(match word.as_str() {
                    "True" | "true" => "true",
                    "False" | "false" => "false",
                    "None" | "null" => "null",
                    _ => return Did::Bad,
                });
                self.end_value();
                return Did::Again;
            }
            _ => {}
        }
        if c.is_whitespace() {
            return Did::Took;
        }
        self.structure(c, out)
    }

    fn structure(&mut self, c: char, out: &mut String) -> Did {
        match (&self.state, c) {
            (State::Value { may_close: true } | State::Key, _) if self.closes(c) => self.close(out),
            (State::Value { .. }, _) => return self.open_value(c, out),
            (State::Key, '"' | '\'') => {
                self.lead(out);
                out.push('"');
                self.state = State::Text { text: Text::new(c, false, ":"), role: Role::Key };
            }
            (State::Brace, '"' | '\'') => {
                self.first = "\"".to_owned();
                self.state = State::Text { text: Text::new(c, false, ":,}"), role: Role::First };
            }
            (State::Brace, '}') => {
                out.push_str("{}");
                self.end_value();
            }
            (State::Brace, _) => {
                self.open_set("", out);
                self.state = State::Value { may_close: false };
                return Did::Again;
            }
            (State::First, ':') => {
                out.push('{');
                out.push_str(&std::mem::take(&mut self.first));
                out.push_str(": ");
                self.stack.push('}');
                self.state = State::Value { may_close: false };
            }
            (State::First, ',' | '}') => {
                let first = std::mem::take(&mut self.first);
                self.open_set(&first, out);
                self.state = State::After;
                return Did::Again;
            }
            (State::Colon, ':') => {
                out.push_str(": ");
                self.state = State::Value { may_close: false };
            }
            (State::After, ',') => {
                self.comma = true;
                self.state =
                    if self.stack.last() == Some(&'}') { State::Key } else { State::Value { may_close: true } };
            }
            (State::After, _) if self.closes(c) => self.close(out),
            _ => return Did::Bad,
        }
        Did::Took
    }

    /// Writes the comma that is due.
    fn lead(&mut self, out: &mut String) {
        if std::mem::take(&mut self.comma) {
            out.push_str(", ");
        }
    }

    fn open_value(&mut self, c: char, out: &mut String) -> Did {
        self.lead(out);
        match c {
            '"' | '\'' => return self.open_text(c, false, out),
            '[' | '(' | '{' if self.stack.len() == MAX_DEPTH => return Did::Bad,
            '[' | '(' => {
                self.stack.push(if c == '[' { ']' } else { ')' });
                out.push('[');
                self.state = State::Value { may_close: true };
            }
            '{' => self.state = State::Brace,
            '-' | '+' | '.' | '0'..='9' => self.state = State::Number(c.to_string()),
            _ if c.is_alphabetic() => self.state = State::Word(c.to_string()),
            _ => return Did::Bad,
        }
        Did::Took
    }

    /// A set becomes a list.
    fn open_set(&mut self, first: &str, out: &mut String) {
        self.stack.push(SET);
        out.push('[');
        out.push_str(first);
    }

    fn closes(&self, c: char) -> bool {
        self.stack.last().is_some_and(|due| *due == c || (*due == SET && c == '}'))
    }

    fn open_text(&mut self, quote: char, raw: bool, out: &mut String) -> Did {
        out.push('"');
        self.state = State::Text { text: Text::new(quote, raw, ",)]}"), role: Role::Value };
        Did::Took
    }

    fn end_text(&mut self, role: Role) {
        match role {
            Role::Value => self.end_value(),
            Role::Key => self.state = State::Colon,
            Role::First => self.state = State::First,
        }
    }

    fn close(&mut self, out: &mut String) {
        self.comma = false;
        out.push(if self.stack.pop() == Some('}') { '}' } else { ']' });
        self.end_value();
    }

    fn end_value(&mut self) {
        self.state = if self.stack.is_empty() { State::Done } else { State::After };
    }
}

/// A Python number as JSON; `None` if it is none.
fn number_json(text: &str) -> Option<String> {
    let mut text = text.replace('_', "");
    if let Some(rest) = text.strip_prefix('+') {
        text = rest.to_owned();
    }
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |d| ("-", d));
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    // Leading zeros are noise in front of another digit.
    let digits = match digits.as_bytes().get(zeros) {
        Some(b) if b.is_ascii_digit() => &digits[zeros..],
        _ => &digits[zeros.saturating_sub(1)..],
    };
    let mut out = format!("{sign}{}{digits}", if digits.starts_with('.') { "0" } else { "" });
    if out.ends_with('.') {
        out.push('0');
    }
    crate::json::is_value(&out).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, cut: usize) -> Option<(usize, String)> {
        let mut transcoder = Transcoder::default();
        let mut out = String::new();
        match transcoder.feed(&text[..cut], &mut out) {
            Fed::Done(n) => return Some((n, out)),
            Fed::Bad(_) => return None,
            Fed::More => {}
        }
        match transcoder.feed(&text[cut..], &mut out) {
            Fed::Done(n) => Some((cut + n, out)),
            _ => None,
        }
    }

    #[test]
    fn literals_at_every_cut() {
        let cases = [
            ("'a\"b\\n\\'c',", "\"a\\\"b\\n'c\""),
            ("'' ", "\"\""),
            ("\"\"\"a\"b\"\"\" ", "\"a\\\"b\""),
            ("'he said 'hi' to me' )", "\"he said 'hi' to me\""),
            ("\"a \"b\" c\" ,", "\"a \\\"b\\\" c\""),
            ("['x'y', \"z\"]", "[\"x'y\", \"z\"]"),
            ("{'k'e'y': 'v'}", "{\"k'e'y\": \"v\"}"),
            ("r'\\d',", "\"\\\\d\""),
            ("'\\x41\\u00e9\\q')", "\"Aé\\\\q\""),
            ("-3,", "-3"),
            ("007 ", "7"),
            ("1_000. ", "1000.0"),
            (".5)", "0.5"),
            ("1e-3 ", "1e-3"),
            ("True)", "true"),
            ("[1, (2, None,), {'a': [], \"b\": {}},] ", "[1, [2, null], {\"a\": [], \"b\": {}}]"),
            ("9007199254740993 ", "9007199254740993"),
            ("{'a', \"b\", 'c',} ", "[\"a\", \"b\", \"c\"]"),
            ("{'a'} ", "[\"a\"]"),
            ("{1, (2,)} ", "[1, [2]]"),
            ("{ } ", "{}"),
            ("{'a' : {'b'}} ", "{\"a\": [\"b\"]}"),
        ];
        for (text, want) in cases {
            for (cut, _) in text.char_indices() {
                let (read, got) = run(text, cut).unwrap_or_else(|| panic!("{text} cut at {cut}"));
                assert_eq!(got, want, "{text} cut at {cut}");
                assert_eq!(read, text.trim_end_matches([' ', ',', ')']).len().max(read), "{text}");
                assert!(crate::json::is_value(&got), "{got}");
            }
        }
        for bad in ["foo ", "[1 2] ", "{1: 2} ", "[,] ", "1.2.3 "] {
            assert_eq!(run(bad, 0), None, "{bad}");
        }
    }

    fn passes(run: Option<Run>, text: &str) -> bool {
        run.is_some_and(|mut run| run.step(text).is_some())
    }

    #[test]
    fn what_passes_is_what_feeding_gives() {
        let text = "{'k\\'y': ['more than a block \"of\" \u{e9}, {}[]', r'\\d', \"\"\"a\"b\"\"\"], 'a': {'s'}}";
        let mut passed = 0;
        for (start, _) in text.char_indices() {
            let mut transcoder = Transcoder::default();
            assert_eq!(transcoder.feed(&text[..start], &mut String::new()), Fed::More);
            let ends = text[start..].char_indices().map(|(n, c)| start + n + c.len_utf8());
            for piece in ends.map(|end| &text[start..end]).filter(|piece| passes(transcoder.run(), piece)) {
                let (mut fed, mut out) = (transcoder.clone(), String::new());
                assert_eq!((fed.feed(piece, &mut out), out.as_str()), (Fed::More, piece));
                assert_eq!(format!("{fed:?}"), format!("{transcoder:?}"), "{piece:?}");
                passed += 1;
            }
        }
        assert!(passed > 100, "{passed}");
    }
}
