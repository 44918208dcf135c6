//! Reads a block of Python calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Shared, Transcoder, is_name};
use crate::calls::{JsonCalls, Object, Outcome};
use crate::emit::Emitter;
use crate::json::{self, Fed};
use crate::limit::{limit, window};
use crate::run::Run;
use crate::scan::Hit;
use crate::syntax::{Read, Reader, Request};

/// Longest function name or keyword.
const MAX_WORD: usize = limit(256);
/// Longest dict of keywords.
const MAX_SPREAD: usize = limit(1 << 20);

/// How dicts name their parts.
static DICT: JsonCalls = JsonCalls::BASE;

#[derive(Debug)]
enum State {
    /// Between calls.
    Between,
    /// Before a keyword or the end of the call.
    Keyword,
    /// A value; `true` if its keyword came before, so that it is read and dropped.
    Value(Transcoder, bool),
    /// A dict of keywords: `**{...}`, and what of it has been read.
    Spread(Transcoder, String),
    /// Behind a value.
    After,
    /// A dict with a name and arguments.
    Dict(Transcoder, Object),
    /// A dict that is no call: read to its end, because its strings may hold anything.
    Skip(Transcoder),
    /// Behind something that is no call: nothing counts but the block's end.
    Broken,
}

enum Move {
    Go(usize),
    Wait,
    Over(usize),
}

/// Reader of one block.
#[derive(Debug)]
pub(super) struct PythonReader {
    shared: Arc<Shared>,
    /// The block has markers around it.
    marked: bool,
    in_list: bool,
    state: State,
    /// Keywords of the call being read.
    keys: Vec<String>,
    /// Something has been written of its arguments.
    opened: bool,
}

impl PythonReader {
    pub(super) fn new(shared: Arc<Shared>, marked: bool) -> PythonReader {
        PythonReader { shared, marked, in_list: false, state: State::Between, keys: Vec::new(), opened: false }
    }

    fn go(&mut self, rest: &str, last: bool, request: &Request, out: &mut Emitter) -> Move {
        if !matches!(self.state, State::Value(..) | State::Dict(..) | State::Spread(..) | State::Skip(..)) {
            let body = rest.trim_start();
            if body.len() < rest.len() {
                return Move::Go(rest.len() - body.len());
            }
        }
        match &mut self.state {
            State::Between => self.between(rest, last, out),
            State::Keyword => self.keyword(rest, out),
            State::Value(transcoder, dropped) => {
                let fed = if *dropped {
                    transcoder.feed(rest, &mut String::new())
                } else {
                    out.args_with(|args| transcoder.feed(rest, args))
                };
                match fed {
                    Fed::More => Move::Go(rest.len()),
                    Fed::Done(n) => {
                        self.state = State::After;
                        Move::Go(n)
                    }
                    Fed::Bad(n) => self.fail(n, out),
                }
            }
            State::Spread(transcoder, json) => match transcoder.feed(rest, json) {
                Fed::More if json.len() <= MAX_SPREAD => Move::Go(rest.len()),
                Fed::Done(n) if json.len() <= MAX_SPREAD => {
                    let json = std::mem::take(json);
                    if self.spread(&json, out) { Move::Go(n) } else { self.fail(n, out) }
                }
                Fed::More => self.skip(rest.len(), out),
                Fed::Done(n) | Fed::Bad(n) => self.fail(n, out),
            },
            State::Skip(transcoder) => match transcoder.feed(rest, &mut String::new()) {
                Fed::More => Move::Go(rest.len()),
                Fed::Done(n) | Fed::Bad(n) => {
                    self.state = State::Broken;
                    Move::Go(n)
                }
            },
            State::After => match rest.as_bytes()[0] {
                b',' => {
                    self.state = State::Keyword;
                    Move::Go(1)
                }
                b')' => self.end_call(out),
                _ => self.fail(0, out),
            },
            State::Dict(..) => self.dict(rest, request, out),
            State::Broken => match self.shared.closes.find(rest, last) {
                Hit::Marker { at, len, .. } if self.marked => Move::Over(at + len),
                Hit::Partial { at: 0 } if self.marked => Move::Wait,
                Hit::Partial { at } | Hit::Marker { at, .. } if self.marked => Move::Go(at),
                _ => Move::Go(rest.len()),
            },
        }
    }

    fn between(&mut self, rest: &str, last: bool, out: &mut Emitter) -> Move {
        match self.shared.closes.find_here(rest, last) {
            Hit::Marker { len, .. } if self.marked => return Move::Over(len),
            Hit::Partial { .. } if self.marked => return Move::Wait,
            _ => {}
        }
        match rest.as_bytes()[0] {
            b'[' if !self.in_list => {
                self.in_list = true;
                Move::Go(1)
            }
            b']' if self.in_list => {
                self.in_list = false;
                if self.marked { Move::Go(1) } else { Move::Over(1) }
            }
            b',' | b';' => Move::Go(1),
            b'{' if self.shared.spec.objects => {
                self.state = State::Dict(Transcoder::default(), Object::new(&DICT, false));
                Move::Go(0)
            }
            _ => {
                let (seen, full) = window(rest, MAX_WORD, false);
                let name = seen.len() - seen.trim_start_matches(is_name).len();
                match seen[name..].trim_start().as_bytes().first() {
                    None if !full => Move::Wait,
                    Some(b'(') if name > 0 => {
                        out.start(&rest[..name], None);
                        self.keys.clear();
                        self.opened = false;
                        self.state = State::Keyword;
                        Move::Go(seen.len() - seen[name..].trim_start().len() + 1)
                    }
                    _ => self.fail(0, out),
                }
            }
        }
    }

    /// `key=`, or the end of the call.
    fn keyword(&mut self, rest: &str, out: &mut Emitter) -> Move {
        if rest.starts_with(')') {
            return self.end_call(out);
        }
        if rest.starts_with("**") {
            self.state = State::Spread(Transcoder::default(), String::new());
            return Move::Go(2);
        }
        if rest == "*" {
            return Move::Wait;
        }
        let (seen, full) = window(rest, MAX_WORD, false);
        let word = seen.len() - seen.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
        let after = seen[word..].trim_start();
        match after.as_bytes().first() {
            None if !full => Move::Wait,
            Some(b'=') if word > 0 => {
                let dropped = !self.head(&rest[..word], out);
                self.state = State::Value(Transcoder::default(), dropped);
                Move::Go(seen.len() - after.len() + 1)
            }
            _ => self.fail(0, out),
        }
    }

    /// Writes what stands before the value of `key`; false if the key came before.
    fn head(&mut self, key: &str, out: &mut Emitter) -> bool {
        if self.keys.iter().any(|k| k == key) {
            out.note("a parameter came twice; the first one stands");
            return false;
        }
        let mut head = String::from(if self.opened { ", \"" } else { "{\"" });
        json::escape_into(key, &mut head);
        head.push_str("\": ");
        out.args(&head);
        self.opened = true;
        self.keys.push(key.to_owned());
        true
    }

    /// Writes the keywords of a dict; false if it is none.
    fn spread(&mut self, json: &str, out: &mut Emitter) -> bool {
        let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json) else { return false };
        for (key, value) in fields {
            if self.head(&key, out) {
                out.args(value.get());
            }
        }
        self.state = State::After;
        true
    }

    fn end_call(&mut self, out: &mut Emitter) -> Move {
        out.args(if self.opened { "}" } else { "{}" });
        out.end();
        self.state = State::Between;
        Move::Go(1)
    }

    /// A dict is turned to JSON and read as a call object.
    fn dict(&mut self, rest: &str, request: &Request, out: &mut Emitter) -> Move {
        let State::Dict(transcoder, object) = &mut self.state else { return Move::Go(0) };
        let mut piece = String::new();
        let fed = transcoder.feed(rest, &mut piece);
        let outcome = object.feed(&piece, request, out);
        match (fed, outcome) {
            (Fed::More, Outcome::More) => Move::Go(rest.len()),
            (Fed::Done(n), Outcome::Done(_)) => {
                self.state = State::Between;
                Move::Go(n)
            }
            (Fed::More, _) => self.skip(rest.len(), out),
            (Fed::Done(n) | Fed::Bad(n), _) => self.fail(n, out),
        }
    }

    /// The dict being read is no call.
    fn skip(&mut self, read: usize, out: &mut Emitter) -> Move {
        out.malformed("");
        self.state = match std::mem::replace(&mut self.state, State::Broken) {
            State::Dict(transcoder, _) | State::Spread(transcoder, _) => State::Skip(transcoder),
            other => other,
        };
        Move::Go(read)
    }

    fn fail(&mut self, read: usize, out: &mut Emitter) -> Move {
        out.malformed("");
        self.state = State::Broken;
        Move::Go(read)
    }
}

impl Reader for PythonReader {
    fn read(&mut self, input: &str, last: bool, request: &Request, out: &mut Emitter) -> Read {
        let mut at = 0;
        while at < input.len() {
            match self.go(&input[at..], last, request, out) {
                Move::Go(n) => at += n,
                Move::Wait => return Read::More(at),
                Move::Over(n) => return Read::Over(at + n),
            }
        }
        Read::More(at)
    }

    fn run(&self) -> Option<Run> {
        match &self.state {
            State::Value(transcoder, false) => transcoder.run(),
            _ => None,
        }
    }

    fn finish(&mut self, stopped: bool, _request: &Request, out: &mut Emitter) -> Option<String> {
        if stopped {
            out.abandon("");
        }
        None
    }
}
