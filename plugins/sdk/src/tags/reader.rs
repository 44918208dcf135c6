//! Reads a block of tagged calls.

use std::sync::Arc;

use super::call::Call;
use super::lexer::{Lex, Role, Tag};
use super::value::{Kind, Value};
use super::{CALL_END, CallForm, Shared, Typing, VALUE_END};
use crate::emit::Emitter;
use crate::json::{Checker, Fed};
use crate::scan::Hit;
use crate::syntax::{Read, Reader, Request};

/// Longest function name or parameter key, with its tags.
const MAX_HEADER: usize = 4096;
/// Longest run of layout that is looked past to tell whether a closer is one.
const MAX_LAYOUT: usize = 1024;
/// How much of a call's raw text is kept for reports.
const MAX_RAW: usize = 4096;

#[derive(Debug)]
enum State {
    /// Between calls.
    Block,
    /// Before the name of a call whose block is the call.
    Name,
    /// In a call, between parameters.
    Body,
    Value(Value),
    /// The call's body is one JSON object.
    Json(Checker),
}

/// What one move did.
enum Move {
    /// Read that many bytes, go on.
    Go(usize),
    /// Read that many bytes, then wait for more text.
    Wait(usize),
    /// The block is over.
    Over(usize),
}

/// Reader of one block.
#[derive(Debug)]
pub(super) struct TagReader {
    shared: Arc<Shared>,
    state: State,
    /// No block around the call.
    bare: bool,
    call: Option<Call>,
    raw: String,
}

impl TagReader {
    /// Behind a block's opener.
    pub(super) fn in_block(shared: Arc<Shared>) -> TagReader {
        TagReader { shared, state: State::Block, bare: false, call: None, raw: String::new() }
    }

    /// Behind an opener that is followed by the name.
    pub(super) fn at_name(shared: Arc<Shared>) -> TagReader {
        TagReader { state: State::Name, ..TagReader::in_block(shared) }
    }

    /// Before a call without a block.
    pub(super) fn bare(shared: Arc<Shared>) -> TagReader {
        TagReader { bare: true, ..TagReader::in_block(shared) }
    }

    fn go(&mut self, rest: &str, last: bool, request: &Request, out: &mut Emitter) -> Move {
        match &mut self.state {
            State::Block => self.tag_or_skip(rest, last, request, out),
            State::Name => self.name(rest, last, out),
            State::Body => {
                let fresh = self.call.as_ref().is_some_and(|c| !c.opened && c.wrapped.is_none());
                if self.shared.spec.json_body && fresh && rest.starts_with('{') {
                    self.state = State::Json(Checker::default());
                    return Move::Go(0);
                }
                if fresh && self.shared.spec.json_body {
                    let skip = rest.find(['<', '{']).unwrap_or(rest.len());
                    if skip > 0 {
                        return Move::Go(skip);
                    }
                }
                self.tag_or_skip(rest, last, request, out)
            }
            State::Value(_) => self.value(rest, last, out),
            State::Json(_) => self.json(rest, out),
        }
    }

    /// Skips to the next tag and acts on it.
    fn tag_or_skip(&mut self, rest: &str, last: bool, request: &Request, out: &mut Emitter) -> Move {
        match memchr::memchr(b'<', rest.as_bytes()) {
            None => return Move::Go(rest.len()),
            Some(0) => {}
            Some(at) => return Move::Go(at),
        }
        let shared = Arc::clone(&self.shared);
        let tag = match shared.lexer.lex(rest, last) {
            Lex::Partial => return Move::Wait(0),
            Lex::Not => return Move::Go(1),
            Lex::Tag(tag) => tag,
        };
        match (tag.role, tag.closing) {
            (Role::Call, false) => {
                self.end_call(out);
                self.start_call(tag.name.unwrap_or_default(), out);
                if tag.self_closing {
                    self.end_call(out);
                    return self.after_call(tag.len);
                }
            }
            (Role::Call, true) => {
                self.end_call(out);
                return self.after_call(tag.len);
            }
            (Role::Block, true) => {
                self.end_call(out);
                return Move::Over(tag.len);
            }
            (Role::Block, false) if matches!(shared.spec.call, CallForm::Leading { .. }) => {
                self.end_call(out);
                self.state = State::Name;
            }
            (Role::Param, false) if self.call.is_some() => self.open_value(&tag, request, out),
            (Role::Key, false) if self.call.is_some() => return self.pair(rest, tag.len, last, request, out),
            _ => {}
        }
        Move::Go(tag.len)
    }

    fn after_call(&mut self, read: usize) -> Move {
        self.state = State::Block;
        if self.bare { Move::Over(read) } else { Move::Go(read) }
    }

    /// The name of a call whose block is the call.
    fn name(&mut self, rest: &str, last: bool, out: &mut Emitter) -> Move {
        let body = rest.trim_start();
        if body.len() < rest.len() {
            return Move::Go(rest.len() - body.len());
        }
        let ends = match self.shared.spec.call {
            CallForm::Leading { ends } => ends,
            CallForm::Element { .. } => &[],
        };
        let tag = memchr::memchr(b'<', rest.as_bytes()).map(|at| (at, 0));
        let end = ends.iter().filter_map(|e| rest.find(e).map(|at| (at, e.len()))).chain(tag).min();
        let Some((at, skip)) = end else {
            return if rest.len() <= MAX_HEADER { Move::Wait(0) } else { self.bad_name(rest, out) };
        };
        if skip == 0 {
            match self.shared.lexer.lex(&rest[at..], last) {
                Lex::Partial => return Move::Wait(0),
                Lex::Not => return self.bad_name(&rest[..=at], out),
                Lex::Tag(_) => {}
            }
        }
        let name = rest[..at].trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return self.bad_name(&rest[..at + skip], out);
        }
        self.start_call(name, out);
        Move::Go(at + skip)
    }

    fn bad_name(&mut self, text: &str, out: &mut Emitter) -> Move {
        out.malformed(text);
        self.state = State::Block;
        Move::Go(text.len())
    }

    fn start_call(&mut self, name: &str, out: &mut Emitter) {
        out.start(name, None);
        self.raw.clear();
        self.call = Some(Call::new(name));
        self.state = State::Body;
    }

    fn end_call(&mut self, out: &mut Emitter) {
        if let Some(call) = self.call.take() {
            call.end(out);
        }
    }

    /// The call can't be mended: reported, and skipped up to its end.
    fn fail(&mut self, out: &mut Emitter) {
        self.call = None;
        out.abandon(&self.raw);
        self.state = State::Block;
    }

    fn open_value(&mut self, tag: &Tag<'_>, request: &Request, out: &mut Emitter) {
        self.begin_value(tag.name.unwrap_or_default(), tag.typed, request, out);
        if tag.self_closing {
            self.close_value(out);
        }
    }

    /// `<arg_key>key</arg_key><arg_value>`: read as one header.
    fn pair(&mut self, rest: &str, open: usize, last: bool, request: &Request, out: &mut Emitter) -> Move {
        let shared = Arc::clone(&self.shared);
        let wait = |go: usize| if rest.len() <= MAX_HEADER && !last { Move::Wait(0) } else { Move::Go(go) };
        let Some(end) = memchr::memchr(b'<', &rest.as_bytes()[open..]).map(|at| open + at) else {
            return wait(rest.len());
        };
        let close = match shared.lexer.lex(&rest[end..], last) {
            Lex::Partial => return wait(rest.len()),
            Lex::Tag(tag) if tag.role == Role::Key && tag.closing => end + tag.len,
            // No key after all; what stands here is looked at afresh.
            _ => return Move::Go(end),
        };
        let body = rest[close..].trim_start();
        let next = rest.len() - body.len();
        match shared.lexer.lex(body, last) {
            Lex::Partial => wait(close),
            Lex::Tag(tag) if tag.role == Role::Value && !tag.closing => {
                self.begin_value(rest[open..end].trim(), None, request, out);
                Move::Go(next + tag.len)
            }
            _ if body.is_empty() => wait(close),
            _ => Move::Go(close),
        }
    }

    fn begin_value(&mut self, key: &str, typed: Option<&str>, request: &Request, out: &mut Emitter) {
        let spec = self.shared.spec;
        let tools = &request.tools;
        let Some(call) = self.call.as_mut() else { return };
        let accepts = tools.accepts(&call.name, key);
        let by_schema = if accepts.only_text() { Kind::Text } else { Kind::Typed(accepts) };
        let mut kind = match (spec.typing, typed) {
            (Typing::Attribute(_), Some("true")) => Kind::Text,
            (Typing::Attribute(_), Some("false")) => Kind::Json,
            _ => by_schema,
        };
        call.flush_wrapped(out);
        if call.keys.iter().any(|k| k == key) {
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
        self.state = State::Value(Value::new(head, kind, spec.trim, out));
    }

    /// Reads a value up to its closer. A closer counts only if the format's next tag follows; otherwise it is data.
    fn value(&mut self, rest: &str, last: bool, out: &mut Emitter) -> Move {
        let shared = Arc::clone(&self.shared);
        let (text, then) = match shared.closers.find(rest, false) {
            Hit::Text => (rest, Move::Go(rest.len())),
            Hit::Partial { at } => (&rest[..at], Move::Wait(at)),
            Hit::Marker { at, .. } if at > 0 => (&rest[..at], Move::Go(at)),
            Hit::Marker { len, id, .. } => match self.closes(&rest[len..], id, last) {
                None => return Move::Wait(0),
                Some(false) => (&rest[..len], Move::Go(len)),
                Some(true) => {
                    self.close_value(out);
                    return Move::Go(if id == VALUE_END { len } else { 0 });
                }
            },
        };
        let State::Value(value) = &mut self.state else { return then };
        if !value.feed(text, out) {
            self.fail(out);
        }
        then
    }

    /// Whether a closer before `after` ends the value; `None` if more text must tell.
    fn closes(&self, after: &str, id: u16, last: bool) -> Option<bool> {
        let body = after.trim_start();
        if body.is_empty() {
            return (last || after.len() > MAX_LAYOUT).then_some(true);
        }
        let tag = match self.shared.lexer.lex(body, last) {
            Lex::Partial => return None,
            Lex::Not => return Some(false),
            Lex::Tag(tag) => tag,
        };
        Some(match (tag.role, tag.closing) {
            (Role::Call, false) | (Role::Block, true) => true,
            (Role::Call, true) | (Role::Param | Role::Key, false) => id != CALL_END,
            _ => false,
        })
    }

    fn close_value(&mut self, out: &mut Emitter) {
        let State::Value(value) = std::mem::replace(&mut self.state, State::Body) else { return };
        if let Some((_, wrapped)) = self.call.as_mut().and_then(|c| c.wrapped.as_mut()) {
            *wrapped = value.into_raw();
        } else if !value.end(out) {
            self.fail(out);
        }
    }

    fn json(&mut self, rest: &str, out: &mut Emitter) -> Move {
        let State::Json(checker) = &mut self.state else { return Move::Go(0) };
        let fed = out.args_with(|args| {
            let fed = checker.feed(rest, args);
            if matches!(fed, Fed::Done(_)) {
                // The closing brace waits for the end of the call.
                args.pop();
            }
            fed
        });
        match fed {
            Fed::More => Move::Go(rest.len()),
            Fed::Done(n) => {
                if let Some(call) = self.call.as_mut() {
                    call.opened = true;
                    call.json = true;
                }
                self.state = State::Body;
                Move::Go(n)
            }
            Fed::Bad(n) => {
                self.fail(out);
                Move::Go(n)
            }
        }
    }

    fn keep_raw(&mut self, text: &str) {
        let mut room = MAX_RAW.saturating_sub(self.raw.len()).min(text.len());
        while !text.is_char_boundary(room) {
            room -= 1;
        }
        self.raw.push_str(&text[..room]);
    }
}

impl Reader for TagReader {
    fn read(&mut self, input: &str, last: bool, request: &Request, out: &mut Emitter) -> Read {
        let mut at = 0;
        while at < input.len() {
            let (read, done) = match self.go(&input[at..], last, request, out) {
                Move::Go(n) => (n, None),
                Move::Wait(n) => (n, Some(Read::More(at + n))),
                Move::Over(n) => (n, Some(Read::Over(at + n))),
            };
            self.keep_raw(&input[at..at + read]);
            if let Some(done) = done {
                return done;
            }
            at += read;
        }
        Read::More(at)
    }

    fn finish(&mut self, stopped: bool, request: &Request, out: &mut Emitter) -> Option<String> {
        let complete =
            matches!(self.state, State::Body) && self.call.as_ref().is_some_and(|c| c.has_required(&request.tools));
        if stopped && complete {
            self.end_call(out);
        } else if stopped {
            out.abandon(&self.raw);
        }
        None
    }
}
