//! Python string literals, character by character, to the inside of a JSON string.

use crate::json;
use crate::run::{Escapes, Run};

/// Where in a string literal the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Behind the opening quote: a second one makes the string empty or triple-quoted.
    Opened,
    /// Behind two quotes.
    OpenedTwice,
    Body,
    /// That many closing quotes of a triple-quoted string have come.
    Closing(u8),
    /// A quote has come, and so much layout behind it; it ends the string if what can follow a string does.
    Quoted(u8),
    Escape,
    /// Digits left and the value so far of `\x`, `\u`, `\U`.
    Hex(u8, u32),
}

/// Most layout that is looked past behind a quote.
const MAX_LAYOUT: u8 = 64;

/// A string literal being read.
#[derive(Clone, Debug)]
pub(super) struct Text {
    quote: char,
    raw: bool,
    /// What can follow the string: a quote before anything else is one that the model forgot to escape.
    follow: &'static str,
    /// Layout behind a quote.
    layout: String,
    triple: bool,
    state: State,
}

/// What a character did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// It belongs to the string.
    More,
    /// It ended the string.
    Last,
    /// The string ended before it.
    Before,
}

impl Text {
    /// Behind the opening quote.
    pub(super) fn new(quote: char, raw: bool, follow: &'static str) -> Text {
        Text { quote, raw, follow, layout: String::new(), triple: false, state: State::Opened }
    }

    /// How many bytes of `rest` mean themselves.
    pub(super) fn plain(&self, rest: &str) -> usize {
        if self.state != State::Body {
            return 0;
        }
        let run = json::plain(rest.as_bytes());
        memchr::memchr(self.quote as u8, &rest.as_bytes()[..run]).unwrap_or(run)
    }

    /// The inside of the string, as far as it is written the same in JSON.
    pub(super) fn run(&self) -> Option<Run> {
        let escapes = if self.raw { Escapes::None } else { Escapes::Python };
        (self.state == State::Body).then(|| Run::literal(escapes, self.quote as u8))
    }

    /// Reads a character; what it means is appended to `out`, escaped for JSON.
    pub(super) fn take(&mut self, c: char, out: &mut String) -> Took {
        match self.state {
            State::Opened if c == self.quote => self.state = State::OpenedTwice,
            State::OpenedTwice if c == self.quote => {
                self.triple = true;
                self.state = State::Body;
            }
            State::OpenedTwice => return Took::Before,
            State::Opened | State::Body => {
                self.state = State::Body;
                return self.body(c, out);
            }
            State::Closing(2) if c == self.quote => return Took::Last,
            State::Closing(n) if c == self.quote => self.state = State::Closing(n + 1),
            State::Closing(n) => {
                for _ in 0..n {
                    push(self.quote, out);
                }
                self.state = State::Body;
                return self.body(c, out);
            }
            State::Quoted(n) if c.is_whitespace() && n < MAX_LAYOUT => {
                self.layout.push(c);
                self.state = State::Quoted(n + 1);
            }
            State::Quoted(n) if n == MAX_LAYOUT || self.follow.contains(c) => return Took::Before,
            State::Quoted(_) => {
                push(self.quote, out);
                json::escape_into(&std::mem::take(&mut self.layout), out);
                self.state = State::Body;
                return self.body(c, out);
            }
            State::Escape => self.escape(c, out),
            State::Hex(left, value) => match c.to_digit(16) {
                Some(digit) => {
                    let value = value << 4 | digit;
                    self.state = State::Hex(left - 1, value);
                    if left == 1 {
                        code(value, out);
                        self.state = State::Body;
                    }
                }
                None => {
                    self.state = State::Body;
                    return self.body(c, out);
                }
            },
        }
        Took::More
    }

    fn body(&mut self, c: char, out: &mut String) -> Took {
        if c == self.quote {
            self.state = if self.triple { State::Closing(1) } else { State::Quoted(0) };
        } else if c == '\\' {
            self.state = State::Escape;
        } else {
            push(c, out);
        }
        Took::More
    }

    fn escape(&mut self, c: char, out: &mut String) {
        self.state = State::Body;
        if self.raw {
            push('\\', out);
            push(c, out);
            return;
        }
        let plain = match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'v' => '\x0b',
            '0' => '\0',
            '\\' | '\'' | '"' => c,
            // A line continuation.
            '\n' => return,
            'x' | 'u' | 'U' => {
                self.state = State::Hex(
                    if c == 'x' {
                        2
                    } else if c == 'u' {
                        4
                    } else {
                        8
                    },
                    0,
                );
                return;
            }
            // Python keeps the backslash of what is no escape.
            _ => {
                push('\\', out);
                c
            }
        };
        push(plain, out);
    }
}

fn push(c: char, out: &mut String) {
    json::escape_into(c.encode_utf8(&mut [0; 4]), out);
}

fn code(value: u32, out: &mut String) {
    match char::from_u32(value) {
        Some(c) => push(c, out),
        // Half of a surrogate pair: JSON writes it the same way.
        None => out.push_str(&format!("\\u{:04x}", value & 0xffff)),
    }
}
