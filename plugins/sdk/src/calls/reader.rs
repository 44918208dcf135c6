//! Reads a block of JSON calls.

use std::sync::Arc;

use super::object::{Object, Outcome};
use super::{CALL_OPEN, CLOSE, IGNORED, OPEN, Shared};
use crate::emit::Emitter;
use crate::json::{Checker, Fed};
use crate::limit::{keep, limit, window};
use crate::run::Run;
use crate::scan::Hit;
use crate::syntax::{Read, Reader, Request};

/// Longest header.
const MAX_HEADER: usize = limit(1024);
/// Longest text that is withheld because it may be a call.
const MAX_GUESS: usize = limit(1 << 20);
/// How much of a call's raw text is kept for reports.
const MAX_RAW: usize = limit(4096);

#[derive(Debug)]
enum State {
    /// Before the first call, between calls, behind the last one.
    Between,
    Object(Object),
    /// Before the arguments of a call with a header.
    Header,
    /// The arguments of a call with a header.
    Args(Checker),
    /// A call with a header is complete but for its closer.
    Closing,
    /// Behind something broken: up to the next literal that counts, nothing is looked at.
    Broken,
}

enum Move {
    Go(usize),
    Wait(usize),
    Over(usize),
}

/// Reader of one block.
#[derive(Debug)]
pub(super) struct JsonReader {
    shared: Arc<Shared>,
    state: State,
    in_array: bool,
    /// A header may stand here without a literal before it.
    at_header: bool,
    /// Something of the block has been read, so the block may end.
    any: bool,
    /// Nothing is certain yet: `raw` is text if this is no call.
    guess: bool,
    raw: String,
}

impl JsonReader {
    /// Behind (or, for a guess, before) the opener.
    pub(super) fn new(shared: Arc<Shared>, opener: &str, guess: bool) -> JsonReader {
        let at_header = shared.spec.header.is_some() && shared.spec.call_opens.is_empty();
        JsonReader {
            shared,
            state: State::Between,
            in_array: !guess && opener.ends_with('['),
            at_header,
            any: false,
            guess,
            raw: String::new(),
        }
    }

    fn go(&mut self, rest: &str, last: bool, request: &Request, out: &mut Emitter) -> Option<Move> {
        let room = if self.guess { MAX_GUESS.checked_sub(self.raw.len())? } else { rest.len() };
        match &mut self.state {
            State::Between => self.between(rest, last),
            State::Object(object) => {
                let seen = &rest[..rest.ceil_char_boundary(room + 1)];
                let outcome = object.feed(seen, request, out);
                // A call that has been announced is one, even if it breaks at once.
                self.guess &= !object.is_certain();
                match outcome {
                    Outcome::More => Some(Move::Go(seen.len())),
                    Outcome::Done(n) => {
                        self.guess = false;
                        self.state = State::Between;
                        Some(Move::Go(n))
                    }
                    Outcome::Bad(n) => self.bad(n, rest, out),
                }
            }
            State::Header => Some(self.header(rest, request, out)),
            State::Args(checker) => {
                let fed = out.args_with(|args| {
                    let fed = checker.feed(rest, args);
                    if matches!(fed, Fed::Done(_)) {
                        args.pop();
                    }
                    fed
                });
                match fed {
                    Fed::More => Some(Move::Go(rest.len())),
                    Fed::Done(n) => {
                        self.state = State::Closing;
                        Some(Move::Go(n))
                    }
                    Fed::Bad(n) => self.bad(n, rest, out),
                }
            }
            State::Closing => Some(self.closing(rest, last, out)),
            State::Broken => Some(match self.shared.between.find(rest, last) {
                Hit::Text => Move::Go(rest.len()),
                Hit::Partial { at } => Move::Wait(at),
                Hit::Marker { at, .. } => {
                    self.state = State::Between;
                    self.in_array = false;
                    Move::Go(at)
                }
            }),
        }
    }

    /// The text stopped being a call at byte `n` of `rest`. `None`: it was a guess, and all of it is text.
    fn bad(&mut self, n: usize, rest: &str, out: &mut Emitter) -> Option<Move> {
        if self.guess {
            return None;
        }
        self.keep_raw(&rest[..n]);
        let mut raw = std::mem::take(&mut self.raw);
        // It may have been kept as a whole, while all of this was a guess.
        raw.truncate(raw.ceil_char_boundary(MAX_RAW));
        out.malformed(&raw);
        self.state = State::Broken;
        Some(Move::Go(n))
    }

    fn between(&mut self, rest: &str, last: bool) -> Option<Move> {
        let spec = self.shared.spec;
        let body = rest.trim_start();
        if body.len() < rest.len() {
            return Some(Move::Go(rest.len() - body.len()));
        }
        match self.shared.between.find_here(rest, last) {
            Hit::Partial { .. } => return Some(Move::Wait(0)),
            // Behind the beginning of a guess, an opener proves it wrong.
            Hit::Marker { id: OPEN, .. } if self.guess && !self.raw.is_empty() => return None,
            Hit::Marker { len, id: OPEN, .. } => {
                self.in_array = rest[..len].ends_with('[');
                self.any = false;
                self.at_header = spec.header.is_some() && spec.call_opens.is_empty();
                return Some(Move::Go(len));
            }
            Hit::Marker { len, id: CLOSE, .. } => return Some(Move::Over(len)),
            Hit::Marker { len, id: CALL_OPEN, .. } => {
                self.state = State::Header;
                return Some(Move::Go(len));
            }
            Hit::Marker { len, id: IGNORED, .. } => return Some(Move::Go(len)),
            _ => {}
        }
        Some(match rest.as_bytes()[0] {
            b'{' if spec.call_opens.is_empty() && (self.may_go_on() || !spec.ends_with_json()) => {
                self.any = true;
                self.at_header = false;
                if !self.guess {
                    self.raw.clear();
                }
                self.state = State::Object(Object::new(spec, self.guess));
                Move::Go(0)
            }
            b'[' if !self.any => {
                self.in_array = true;
                self.at_header = false;
                Move::Go(1)
            }
            b']' if self.in_array => {
                self.in_array = false;
                self.any = true;
                if spec.closes.is_empty() { Move::Over(1) } else { Move::Go(1) }
            }
            b',' if self.in_array => Move::Go(1),
            b';' if self.any => {
                self.any = false;
                Move::Go(1)
            }
            _ if self.at_header => {
                self.state = State::Header;
                Move::Go(0)
            }
            _ if spec.ends_with_json() && spec.call_opens.is_empty() && !self.in_array => Move::Over(0),
            // Text where a call should be: a guess was wrong.
            _ if self.guess => return None,
            _ => Move::Go(rest.chars().next().map_or(rest.len(), char::len_utf8)),
        })
    }

    /// In a block without a closer, another object follows only in an array or behind a separator.
    fn may_go_on(&self) -> bool {
        self.in_array || !self.any
    }

    fn header(&mut self, rest: &str, request: &Request, out: &mut Emitter) -> Move {
        let (seen, full) = window(rest, MAX_HEADER, false);
        let Some(end) = seen.find('{') else {
            if let Hit::Marker { at, .. } = self.shared.between.find(seen, full) {
                return self.no_arguments(&seen[..at], request, out);
            }
            if full {
                out.malformed(seen);
                self.at_header = false;
                self.state = State::Broken;
                return Move::Go(seen.len());
            }
            return Move::Wait(0);
        };
        if let Hit::Marker { at, .. } = self.shared.between.find(&rest[..end], true) {
            return self.no_arguments(&rest[..at], request, out);
        }
        self.raw.clear();
        if self.announce(&rest[..end], request, out) {
            self.state = State::Args(Checker::default());
        }
        Move::Go(end)
    }

    /// A header that its call's closer follows.
    fn no_arguments(&mut self, header: &str, request: &Request, out: &mut Emitter) -> Move {
        if self.announce(header, request, out) {
            out.args("{");
        }
        Move::Go(header.len())
    }

    /// Starts the call that `header` names; what is left of it is its closer.
    fn announce(&mut self, header: &str, request: &Request, out: &mut Emitter) -> bool {
        self.at_header = false;
        let index = out.started();
        match self.shared.spec.header.and_then(|rule| rule(header, request, index)) {
            Some(named) => {
                let id = self.shared.spec.id(named.id, request, &named.name, index);
                out.start(&named.name, id);
                self.state = State::Closing;
                true
            }
            None => {
                out.malformed(header);
                self.state = State::Broken;
                false
            }
        }
    }

    /// Behind a call's arguments: anything up to the next literal that counts is noise.
    fn closing(&mut self, rest: &str, last: bool, out: &mut Emitter) -> Move {
        match self.shared.between.find(rest, last) {
            Hit::Text => Move::Go(rest.len()),
            Hit::Partial { at } => Move::Wait(at),
            Hit::Marker { at, .. } => {
                out.args("}");
                out.end();
                self.any = true;
                self.state = State::Between;
                Move::Go(at)
            }
        }
    }

    fn keep_raw(&mut self, text: &str) {
        if self.guess {
            self.raw.push_str(text);
            return;
        }
        keep(&mut self.raw, text, MAX_RAW);
    }
}

impl Reader for JsonReader {
    fn read(&mut self, input: &str, last: bool, request: &Request, out: &mut Emitter) -> Read {
        let mut at = 0;
        while at < input.len() {
            let guess = self.guess;
            let (read, done) = match self.go(&input[at..], last, request, out) {
                None => {
                    // Not a call: what was read is text, and so is what follows.
                    return Read::Text(at, std::mem::take(&mut self.raw));
                }
                Some(Move::Go(n)) => (n, None),
                Some(Move::Wait(n)) => (n, Some(Read::More(at + n))),
                Some(Move::Over(n)) if guess && self.guess => {
                    return Read::Text(at + n, std::mem::take(&mut self.raw) + &input[at..at + n]);
                }
                Some(Move::Over(n)) => (n, Some(Read::Over(at + n))),
            };
            self.keep_raw(&input[at..at + read]);
            if let Some(done) = done {
                return done;
            }
            at += read;
        }
        Read::More(at)
    }

    fn run(&self) -> Option<Run> {
        let run = match &self.state {
            State::Object(object) if !self.guess => object.run(),
            State::Args(checker) if !self.guess => checker.run(),
            _ => None,
        };
        run.map(|run| run.kept(self.raw.len() < MAX_RAW))
    }

    fn passed(&mut self, text: &str) {
        self.keep_raw(text);
    }

    fn cut(&mut self) {
        match &mut self.state {
            State::Object(object) => object.cut(),
            State::Args(checker) => checker.cut(),
            _ => {}
        }
    }

    fn finish(&mut self, stopped: bool, request: &Request, out: &mut Emitter) -> Option<String> {
        let complete = stopped
            && match &mut self.state {
                State::Object(object) => object.stop(request, out),
                State::Closing => {
                    out.args("}");
                    out.end();
                    true
                }
                _ => false,
            };
        if self.guess && !complete {
            return Some(std::mem::take(&mut self.raw));
        }
        if stopped && !complete {
            out.abandon(&self.raw);
        }
        None
    }
}
