//! Reads a block of tagged calls.

use std::sync::Arc;

use super::call::Call;
use super::lexer::{Lex, Role, Tag};
use super::tree::{Tree, opening};
use super::value::Value;
use super::{CLOSE, CallForm, ParamForm, Shared};
use crate::calls::{JsonCalls, Object, Outcome};
use crate::emit::Emitter;
use crate::json::Checker;
use crate::limit::{keep, limit};
use crate::run::Run;
use crate::scan::{Hit, Markers};
use crate::syntax::{Read, Reader, Request};

/// How JSON objects inside a block name their parts.
static OBJECT: JsonCalls = JsonCalls { nested: true, ..JsonCalls::BASE };
/// How much of a call's raw text is kept for reports.
const MAX_RAW: usize = limit(4096);

#[derive(Debug)]
pub(super) enum State {
    /// Between calls.
    Block,
    /// Before the name of a call whose block is the call.
    Name,
    /// In a call, between parameters.
    Body,
    Value(Value),
    /// The call's body is one JSON object.
    Json(Checker),
    /// A JSON object that is the call.
    Object(Object),
    /// A parameter that is a tree of elements.
    Tree(Tree),
    /// Behind something that is no call: only tags count.
    Broken,
}

/// What one move did.
pub(super) enum Move {
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
    pub(super) shared: Arc<Shared>,
    pub(super) state: State,
    /// No block around the call.
    bare: bool,
    pub(super) call: Option<Call>,
    raw: String,
    /// The open call went wrong in this move: it is reported with all that has been read of it.
    failed: bool,
    pub(super) cdata: Cdata,
    /// The name that a header outside the text gave.
    header: Option<String>,
    /// The closer of the element being read, where only its own ends it: a text parameter of a tree.
    leaf: Option<Markers>,
}

/// Whether a value stands in a CDATA section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cdata {
    No,
    /// Nothing of the value has come yet.
    Maybe,
    In,
}

impl TagReader {
    /// Behind a block's opener.
    pub(super) fn in_block(shared: Arc<Shared>) -> TagReader {
        TagReader {
            shared,
            state: State::Block,
            bare: false,
            call: None,
            raw: String::new(),
            failed: false,
            cdata: Cdata::No,
            header: None,
            leaf: None,
        }
    }

    /// Behind an opener that is followed by the name.
    pub(super) fn at_name(self) -> TagReader {
        TagReader { state: State::Name, ..self }
    }

    /// In a call that a header has named; it is announced with the first text.
    pub(super) fn named(self, name: &str) -> TagReader {
        TagReader { header: Some(name.to_owned()), ..self }
    }

    /// Before a call without a block.
    pub(super) fn bare(self) -> TagReader {
        TagReader { bare: true, ..self }
    }

    fn go(&mut self, rest: &str, last: bool, request: &Request, out: &mut Emitter) -> Move {
        match &mut self.state {
            State::Block if self.shared.spec.objects => {
                let brace = rest.find('{').unwrap_or(rest.len());
                if brace == 0 {
                    self.raw.clear();
                    self.state = State::Object(Object::new(&OBJECT, false));
                    return Move::Go(0);
                }
                self.tag_or_skip(&rest[..brace], last || brace < rest.len(), request, out)
            }
            State::Block => self.tag_or_skip(rest, last, request, out),
            State::Name => self.name(rest, last, request, out),
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
            State::Value(_) if self.cdata != Cdata::No => self.in_cdata(rest, out),
            State::Value(_) => self.value(rest, last, out),
            State::Json(_) => self.json(rest, out),
            State::Tree(_) => self.tree(rest, request, out),
            State::Object(object) => match object.feed(rest, request, out) {
                Outcome::More => Move::Go(rest.len()),
                Outcome::Done(n) => {
                    self.state = State::Block;
                    Move::Go(n)
                }
                Outcome::Bad(n) => {
                    // All of it, up to where it went wrong.
                    self.keep_raw(&rest[..n]);
                    out.malformed(&std::mem::take(&mut self.raw));
                    self.state = State::Broken;
                    Move::Go(n)
                }
            },
            State::Broken => self.tag_or_skip(rest, last, request, out),
        }
    }

    /// Skips to the next tag and acts on it.
    fn tag_or_skip(&mut self, rest: &str, last: bool, request: &Request, out: &mut Emitter) -> Move {
        match self.shared.tags.find(rest, last) {
            Hit::Text => return Move::Go(rest.len()),
            Hit::Partial { at } => return Move::Wait(at),
            Hit::Marker { at, .. } if at > 0 => return Move::Go(at),
            Hit::Marker { len, id: CLOSE, .. } => {
                self.end_call(out);
                return Move::Over(len);
            }
            Hit::Marker { .. } => {}
        }
        let shared = Arc::clone(&self.shared);
        let tag = match shared.lexer.lex(rest, last) {
            Lex::Partial => return Move::Wait(0),
            Lex::Not => return self.unknown_tag(rest, request, out),
            Lex::Tag(tag) => tag,
        };
        match (tag.role, tag.closing) {
            (Role::Call, false) => {
                self.end_call(out);
                self.start_call(&shared.written_name(tag.name), request, out);
                if tag.self_closing {
                    self.end_call(out);
                    return self.after_call(tag.len);
                }
            }
            (Role::Call, true) => {
                self.end_call(out);
                return self.after_call(tag.len);
            }
            (Role::Block | Role::Outer, true) => {
                self.end_call(out);
                let inner = tag.role == Role::Block && !shared.spec.outer.is_empty();
                return if inner { self.after_call(tag.len) } else { Move::Over(tag.len) };
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

    /// What begins like a tag but is none of the format's: a parameter where any element is one, noise elsewhere.
    fn unknown_tag(&mut self, rest: &str, request: &Request, out: &mut Emitter) -> Move {
        let brackets = self.shared.spec.brackets;
        let tree = matches!(self.shared.spec.param, ParamForm::Tree) && matches!(self.state, State::Body);
        match opening(brackets, rest).filter(|_| tree) {
            Some(None) => Move::Wait(0),
            Some(Some((key, read))) => {
                let name = self.call.as_ref().map_or("", |c| &c.name);
                let typed = request.tools.accepts(name, key);
                if !typed.is_empty() && typed.only_text() {
                    let close = format!("{}{key}{}", brackets.close, brackets.end);
                    self.leaf = Some(Markers::new([(close, 0)]));
                    self.begin_value(key, None, request, out);
                    return Move::Go(read);
                }
                if let Some(call) = self.call.as_mut() {
                    if call.keys.iter().any(|k| k == key) {
                        out.note("a parameter came twice; the first one stands");
                    }
                    call.keys.push(key.to_owned());
                }
                self.state = State::Tree(Tree::new(brackets, key));
                Move::Go(read)
            }
            None => Move::Go(rest.chars().next().map_or(rest.len(), char::len_utf8)),
        }
    }

    fn after_call(&mut self, read: usize) -> Move {
        self.state = State::Block;
        if self.bare { Move::Over(read) } else { Move::Go(read) }
    }

    pub(super) fn start_call(&mut self, name: &str, request: &Request, out: &mut Emitter) {
        let spec = self.shared.spec;
        let name = spec.rename.map_or_else(|| name.to_owned(), |rule| rule(name, request));
        let id = spec.make_id.map(|rule| rule(request, &name, out.started()));
        out.start(&name, id);
        self.raw.clear();
        self.call = Some(Call::new(&name));
        self.state = State::Body;
    }

    /// Starts the call that a header has named.
    fn announce(&mut self, request: &Request, out: &mut Emitter) {
        if let Some(name) = self.header.take() {
            self.start_call(&name, request, out);
        }
    }

    fn end_call(&mut self, out: &mut Emitter) {
        if let Some(call) = self.call.take() {
            call.end(out);
        }
    }

    /// The call can't be mended: reported, and skipped up to its end.
    pub(super) fn fail(&mut self) {
        self.call = None;
        self.failed = true;
        self.state = State::Block;
    }

    fn open_value(&mut self, tag: &Tag<'_>, request: &Request, out: &mut Emitter) {
        let key = self.shared.written_name(tag.name).into_owned();
        self.begin_value(&key, tag.typed, request, out);
        if tag.self_closing {
            self.close_value(out);
        }
    }

    /// Reads a value up to its closer. A closer counts only if the format's next tag follows; otherwise it is data.
    fn value(&mut self, rest: &str, last: bool, out: &mut Emitter) -> Move {
        if self.leaf.is_some() {
            return self.leaf(rest, out);
        }
        let shared = Arc::clone(&self.shared);
        let in_text = matches!(&self.state, State::Value(value) if value.in_text());
        let (text, then) = match shared.closers.find(rest, false) {
            Hit::Text => (rest, Move::Go(rest.len())),
            Hit::Partial { at } => (&rest[..at], Move::Wait(at)),
            Hit::Marker { at, .. } if at > 0 => (&rest[..at], Move::Go(at)),
            Hit::Marker { len, .. } => match shared.closes(rest, last, in_text) {
                None => return Move::Wait(0),
                Some(0) => (&rest[..len], Move::Go(len)),
                Some(read) => {
                    self.close_value(out);
                    // The closer of the call, where the value's own was forgotten, is read again as such.
                    return Move::Go(if read == usize::MAX { 0 } else { read });
                }
            },
        };
        if let State::Value(value) = &mut self.state {
            value.feed(text, out);
        }
        then
    }

    /// Reads the text of an element that only its own closer ends.
    fn leaf(&mut self, rest: &str, out: &mut Emitter) -> Move {
        let hit = self.leaf.as_ref().map_or(Hit::Text, |close| close.find(rest, false));
        let (text, then, over) = match hit {
            Hit::Text => (rest, Move::Go(rest.len()), false),
            Hit::Partial { at } => (&rest[..at], Move::Wait(at), false),
            Hit::Marker { at, .. } if at > 0 => (&rest[..at], Move::Go(at), false),
            Hit::Marker { len, .. } => ("", Move::Go(len), true),
        };
        if let State::Value(value) = &mut self.state {
            value.feed(text, out);
        }
        if over {
            self.close_value(out);
            self.leaf = None;
        }
        then
    }

    fn close_value(&mut self, out: &mut Emitter) {
        let State::Value(value) = std::mem::replace(&mut self.state, State::Body) else { return };
        if let Some((_, wrapped)) = self.call.as_mut().and_then(|c| c.wrapped.as_mut()).filter(|_| !value.is_bad()) {
            *wrapped = value.into_raw();
        } else if !value.end(out) {
            self.fail();
        }
    }

    fn keep_raw(&mut self, text: &str) {
        keep(&mut self.raw, text, MAX_RAW);
    }
}

impl Reader for TagReader {
    fn read(&mut self, input: &str, last: bool, request: &Request, out: &mut Emitter) -> Read {
        self.announce(request, out);
        let mut at = 0;
        while at < input.len() {
            let (read, done) = match self.go(&input[at..], last, request, out) {
                Move::Go(n) => (n, None),
                Move::Wait(n) => (n, Some(Read::More(at + n))),
                Move::Over(n) => (n, Some(Read::Over(at + n))),
            };
            self.keep_raw(&input[at..at + read]);
            if std::mem::take(&mut self.failed) {
                out.abandon(&self.raw);
            }
            if let Some(done) = done {
                return done;
            }
            at += read;
        }
        Read::More(at)
    }

    fn run(&self) -> Option<Run> {
        let State::Value(value) = &self.state else { return None };
        let trim = value.passes().filter(|_| self.cdata == Cdata::No)?;
        let closers = self.leaf.as_ref().unwrap_or(&self.shared.closers);
        Run::raw(closers, trim).map(|run| run.kept(self.raw.len() < MAX_RAW))
    }

    fn passed(&mut self, text: &str) {
        self.keep_raw(text);
    }

    fn finish(&mut self, stopped: bool, request: &Request, out: &mut Emitter) -> Option<String> {
        // A call that a header named, without any body.
        if stopped {
            self.announce(request, out);
        }
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
