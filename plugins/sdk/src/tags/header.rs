//! The heads of calls and values: leading names, key and value pairs, what a value will become.

use std::sync::Arc;

use super::follow::Enclosed;
use super::lexer::{Lex, Role};
use super::reader::{Cdata, Move, State, TagReader};
use super::value::{Kind, Value};
use super::{CallForm, Typing};
use crate::emit::Emitter;
use crate::limit::{limit, window};
use crate::scan::Hit;
use crate::syntax::Request;
use crate::tools::JsonTypes;

/// Longest function name or parameter key, with its tags.
const MAX_HEADER: usize = limit(4096);

impl TagReader {
    /// The name of a call whose block is the call.
    pub(super) fn name(&mut self, rest: &str, last: bool, request: &Request, out: &mut Emitter) -> Move {
        let body = rest.trim_start();
        if body.len() < rest.len() {
            return Move::Go(rest.len() - body.len());
        }
        if self.shared.spec.objects && rest.starts_with(['{', '[']) {
            self.state = State::Block;
            return Move::Go(0);
        }
        let ends = match self.shared.spec.call {
            CallForm::Leading { ends } => ends,
            CallForm::Element { .. } => &[],
        };
        let (seen, full) = window(rest, MAX_HEADER, last);
        let tag = match self.shared.tags.find(seen, full) {
            Hit::Marker { at, .. } | Hit::Partial { at } => Some((at, 0)),
            Hit::Text => None,
        };
        let end = ends.iter().filter_map(|e| seen.find(e).map(|at| (at, e.len()))).chain(tag).min();
        let Some((at, skip)) = end else {
            return if seen.len() == rest.len() { Move::Wait(0) } else { self.bad_name(seen, out) };
        };
        if skip == 0 {
            match self.shared.lexer.lex(&seen[at..], full) {
                Lex::Partial => return Move::Wait(0),
                Lex::Not => return self.bad_name(&seen[..seen.ceil_char_boundary(at + 1)], out),
                Lex::Tag(_) => {}
            }
        }
        let name = seen[..at].trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return self.bad_name(&seen[..at + skip], out);
        }
        self.start_call(name, request, out);
        Move::Go(at + skip)
    }

    fn bad_name(&mut self, text: &str, out: &mut Emitter) -> Move {
        out.malformed(text);
        self.state = State::Block;
        Move::Go(text.len())
    }

    /// `<arg_key>key</arg_key><arg_value>`: read as one header.
    pub(super) fn pair(&mut self, rest: &str, open: usize, last: bool, request: &Request, out: &mut Emitter) -> Move {
        let shared = Arc::clone(&self.shared);
        let (rest, last) = window(rest, MAX_HEADER, last);
        let wait = |go: usize| if last { Move::Go(go) } else { Move::Wait(0) };
        let (key, close) = match shared.enclosed(&rest[open..], Role::Key, last) {
            Enclosed::Partial => return wait(rest.len()),
            Enclosed::Text(key, read) => (key, open + read),
            // No key after all; what stands here is looked at afresh.
            Enclosed::Not(read) => return Move::Go(open + read),
        };
        let mut kind = None;
        let mut at = close;
        loop {
            let body = rest[at..].trim_start();
            at = rest.len() - body.len();
            match shared.lexer.lex(body, last) {
                Lex::Tag(tag) if tag.role == Role::Value && !tag.closing => {
                    self.begin_value(key, kind, request, out);
                    return Move::Go(at + tag.len);
                }
                Lex::Tag(tag) if tag.role == Role::Kind && !tag.closing && kind.is_none() => {
                    match shared.enclosed(&body[tag.len..], Role::Kind, last) {
                        Enclosed::Partial => return wait(close),
                        Enclosed::Text(text, read) => {
                            kind = Some(text);
                            at += tag.len + read;
                        }
                        Enclosed::Not(_) => return Move::Go(close),
                    }
                }
                Lex::Partial => return wait(close),
                _ if body.is_empty() => return wait(close),
                _ => return Move::Go(close),
            }
        }
    }

    pub(super) fn begin_value(&mut self, key: &str, typed: Option<&str>, request: &Request, out: &mut Emitter) {
        let spec = self.shared.spec;
        let tools = &request.tools;
        let Some(call) = self.call.as_mut() else { return };
        let accepts = tools.accepts(&call.name, key);
        let by_schema = if accepts.only_text() { Kind::Text } else { Kind::Typed(accepts) };
        let mut kind = match (spec.typing, typed) {
            (Typing::Attribute(_), Some("true")) => Kind::Text,
            (Typing::Attribute(_), Some("false")) => Kind::Json,
            (Typing::Schema, Some(name)) if accepts.is_empty() => match JsonTypes::from_name(name) {
                JsonTypes::STRING => Kind::Text,
                _ => Kind::Json,
            },
            (Typing::Named(_), Some(name)) if JsonTypes::from_name(name) != JsonTypes::STRING => Kind::Json,
            (Typing::Named(_), Some(_)) => Kind::Text,
            _ => by_schema,
        };
        call.flush_wrapped(out);
        if call.json {
            out.note("a parameter came behind arguments that are one object; the object stands");
            kind = Kind::Discard;
        } else if call.keys.iter().any(|k| k == key) {
            out.note("a parameter came twice; the first one stands");
            kind = Kind::Discard;
        }
        let declared = tools.get(&call.name).is_none_or(|t| t.param(key).is_some());
        let wraps = call.keys.is_empty() && !declared && spec.unwrap.contains(&key) && kind != Kind::Discard;
        call.keys.push(key.to_owned());
        let head = match kind {
            Kind::Discard => String::new(),
            _ if wraps => {
                call.wrapped = Some((key.to_owned(), String::new()));
                String::new()
            }
            _ => call.head(key),
        };
        let kind = if wraps { Kind::Wrapped } else { kind };
        self.cdata = if spec.cdata { Cdata::Maybe } else { Cdata::No };
        self.state = State::Value(Value::new(head, kind, spec.trim, out));
    }
}
