//! One parameter's value on its way to JSON.

use super::ValueTrim;
use crate::coerce;
use crate::emit::Emitter;
use crate::json::{self, Checker, Fed};
use crate::layout::Trim;
use crate::limit::limit;
use crate::tools::JsonTypes;

/// From this size on, an object or array that is valid so far is streamed instead of withheld.
const STREAM_FROM: usize = limit(4096);
/// Longest value that is withheld until it is complete.
const MAX_HELD: usize = limit(1 << 20);

/// What a value becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A string: streamed.
    Text,
    /// What the schema accepts.
    Typed(JsonTypes),
    /// JSON; a string if it is not.
    Json,
    /// Kept as it is: it may turn out to be the whole arguments.
    Wrapped,
    /// Nothing: the key was there before.
    Discard,
}

/// A value being read.
#[derive(Debug)]
pub(super) struct Value {
    /// What stands before the value: separator, key, colon.
    head: String,
    kind: Kind,
    trim: ValueTrim,
    /// Nothing but layout has come yet.
    lead: bool,
    /// Layout that is dropped if the value ends here.
    tail: String,
    raw: String,
    object: Option<Object>,
    /// Too long to be withheld, or broken after it was streamed. It is read to its end all the same: what it holds is data.
    bad: bool,
}

/// An object or array that is checked while it comes.
#[derive(Debug, Default)]
struct Object {
    checker: Checker,
    checked: String,
    bad: bool,
    streaming: bool,
}

impl Value {
    /// Begins a value; a string's opening quote goes out at once.
    pub(super) fn new(head: String, kind: Kind, trim: ValueTrim, out: &mut Emitter) -> Value {
        let lead = trim != ValueTrim::Nothing;
        let mut value =
            Value { head, kind, trim, lead, tail: String::new(), raw: String::new(), object: None, bad: false };
        if kind == Kind::Text {
            value.head.push('"');
            out.args(&value.head);
        }
        value
    }

    /// If text goes out at once, because it belongs to a string: with which layout it may not end.
    pub(super) fn passes(&self) -> Option<Trim> {
        let trim = match self.trim {
            ValueTrim::Nothing => Trim::Nothing,
            ValueTrim::OneNewline => Trim::Newlines,
            ValueTrim::Whitespace => Trim::Whitespace,
        };
        (self.kind == Kind::Text && !self.lead && !self.bad && self.tail.is_empty()).then_some(trim)
    }

    /// The next piece.
    pub(super) fn feed(&mut self, piece: &str, out: &mut Emitter) {
        let mut piece = piece;
        if self.lead && !piece.is_empty() {
            piece = match self.trim {
                ValueTrim::OneNewline => {
                    self.lead = false;
                    piece.strip_prefix('\n').unwrap_or(piece)
                }
                _ => piece.trim_start(),
            };
            if piece.is_empty() {
                return;
            }
            self.lead = false;
        }
        let body = match self.trim {
            ValueTrim::Nothing => piece,
            ValueTrim::OneNewline => piece.strip_suffix('\n').unwrap_or(piece),
            ValueTrim::Whitespace => piece.trim_end(),
        };
        let one = self.trim == ValueTrim::OneNewline && body.len() < piece.len();
        if !body.is_empty() || one {
            let tail = std::mem::take(&mut self.tail);
            self.write(&tail, out);
            self.write(body, out);
        }
        self.tail.push_str(&piece[body.len()..]);
    }

    fn write(&mut self, text: &str, out: &mut Emitter) {
        if text.is_empty() || self.bad {
            return;
        }
        match self.kind {
            Kind::Discard => {}
            Kind::Text => out.args_with(|args| json::escape_into(text, args)),
            Kind::Wrapped => self.keep(text),
            Kind::Typed(_) | Kind::Json => self.hold(text, out),
        }
    }

    /// Withholds `text`.
    fn keep(&mut self, text: &str) {
        self.raw.push_str(text);
        if self.raw.len() > MAX_HELD {
            self.bad = true;
            self.raw = String::new();
        }
    }

    fn hold(&mut self, text: &str, out: &mut Emitter) {
        let mut text = text;
        if self.object.is_none() && self.raw.trim_start().is_empty() {
            let body = text.trim_start();
            let container = match self.kind {
                Kind::Typed(accepts) => {
                    body.starts_with('{') && accepts.accepts(JsonTypes::OBJECT)
                        || body.starts_with('[') && accepts.accepts(JsonTypes::ARRAY)
                }
                _ => body.starts_with(['{', '[']),
            };
            if container {
                self.object = Some(Object::default());
                self.raw.push_str(&text[..text.len() - body.len()]);
                text = body;
            }
        }
        let Some(object) = self.object.as_mut() else { return self.keep(text) };
        if !object.streaming && self.raw.len() < STREAM_FROM {
            // Whether it streams is decided at one place of the text, wherever the deltas are cut.
            let (held, rest) = text.split_at(text.ceil_char_boundary(STREAM_FROM - self.raw.len()));
            object.check(held);
            self.raw.push_str(held);
            if object.bad || self.raw.len() < STREAM_FROM {
                return self.keep_bad(rest);
            }
            object.streaming = true;
            self.head.push_str(&std::mem::take(&mut object.checked));
            out.args(&self.head);
            self.raw = String::new();
            text = rest;
        }
        if !object.streaming {
            return self.keep_bad(text);
        }
        object.check(text);
        out.args(&std::mem::take(&mut object.checked));
        self.bad = object.bad;
    }

    /// Withholds what follows in an object that is none.
    fn keep_bad(&mut self, text: &str) {
        if let Some(object) = self.object.as_mut() {
            object.check(text);
        }
        self.keep(text);
    }

    /// See the field.
    pub(super) fn is_bad(&self) -> bool {
        self.bad
    }

    /// The value is complete. `false`: it can't be told.
    pub(super) fn end(mut self, out: &mut Emitter) -> bool {
        if self.bad {
            return false;
        }
        match self.kind {
            Kind::Discard | Kind::Wrapped => {}
            Kind::Text => out.args("\""),
            Kind::Typed(_) | Kind::Json => match self.object.as_ref() {
                Some(object) if object.streaming => return !object.bad && object.checker.is_done(),
                _ => {
                    let text = self.take_json();
                    self.head.push_str(&text);
                    out.args(&self.head);
                }
            },
        }
        true
    }

    /// A string is open in the object or array that is being read.
    pub(super) fn in_text(&self) -> bool {
        self.object.as_ref().is_some_and(|object| !object.bad && object.checker.in_text())
    }

    /// The value as it was written.
    pub(super) fn into_raw(self) -> String {
        self.raw
    }

    /// The complete value as JSON text.
    fn take_json(&mut self) -> String {
        match (self.object.take(), self.kind) {
            (Some(object), _) if !object.bad && object.checker.is_done() => object.checked,
            (_, Kind::Json) => coerce::json_or_text(&self.raw),
            (_, Kind::Typed(accepts)) => coerce::coerce(&self.raw, accepts),
            (_, _) => json::quote(&self.raw),
        }
    }
}

impl Object {
    fn check(&mut self, text: &str) {
        let mut rest = text;
        if !self.bad && !self.checker.is_done() {
            match self.checker.feed(text, &mut self.checked) {
                Fed::More => return,
                Fed::Done(n) => rest = &text[n..],
                Fed::Bad(_) => self.bad = true,
            }
        }
        self.bad |= !rest.trim_start().is_empty();
    }
}
