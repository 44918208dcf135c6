//! Calls in Gemma's literal: `call:name{key:value,...}`, keys bare, strings between a delimiter of their own.

use std::sync::Arc;

use crate::coerce;
use crate::emit::Emitter;
use crate::json;
use crate::layout::Trim;
use crate::limit::limit;
use crate::run::Run;
use crate::scan::{Hit, Markers};
use crate::syntax::{Enter, Opener, Place, Read, Reader, Request, Syntax};
use crate::tools::JsonTypes;

/// Longest function name or key.
const MAX_WORD: usize = limit(256);
/// Longest bare value: it is looked at again until its end has come.
const MAX_BARE: usize = limit(4096);
/// Longest string that is withheld to be decoded.
const MAX_HELD: usize = limit(1 << 20);
/// How deep values may nest.
const MAX_DEPTH: usize = 128;

/// Calls in brace literals.
#[derive(Clone, Copy, Debug)]
pub struct BraceCalls {
    /// Literals that open a call.
    pub opens: &'static [&'static str],
    /// Literals that close it.
    pub closes: &'static [&'static str],
    /// What stands before the function's name.
    pub prefix: &'static str,
    /// Opens and closes strings.
    pub quote: &'static str,
    /// Strings are text of any type: the schema decides, else JSON counts as what it says.
    pub decode: bool,
}

#[derive(Debug)]
struct Shared {
    spec: &'static BraceCalls,
    quote: Markers,
    closes: Markers,
}

/// [`BraceCalls`] compiled for parsing.
#[derive(Debug)]
pub struct BraceSyntax {
    shared: Arc<Shared>,
}

impl BraceSyntax {
    /// Compiles the marker sets.
    pub fn new(spec: &'static BraceCalls) -> BraceSyntax {
        let closes = spec.closes.iter().chain(spec.opens).map(|text| (*text, 0));
        let shared = Shared { spec, quote: Markers::new([(spec.quote, 0)]), closes: Markers::new(closes) };
        BraceSyntax { shared: Arc::new(shared) }
    }

    fn reader(&self) -> BraceReader {
        BraceReader {
            shared: Arc::clone(&self.shared),
            state: State::Head,
            stack: Vec::new(),
            first: true,
            name: String::new(),
            keys: Vec::new(),
            twice: false,
            long: false,
        }
    }
}

impl Syntax for BraceSyntax {
    fn openers(&self) -> Vec<Opener> {
        let open = |text: &&str| Opener { text: (*text).to_owned(), place: Place::Anywhere };
        self.shared.spec.opens.iter().map(open).collect()
    }

    fn enter(&self, opener: usize, _input: &str, _last: bool, _request: &Request) -> Enter {
        Enter::Calls(self.shared.spec.opens[opener].len(), Box::new(self.reader()))
    }

    fn body(&self, named: Option<&str>) -> Option<Box<dyn Reader>> {
        named.is_none().then(|| Box::new(self.reader()) as Box<dyn Reader>)
    }

    fn markers(&self) -> Vec<String> {
        let s = self.shared.spec;
        s.opens.iter().chain(s.closes).chain([&s.quote]).map(|text| (*text).to_owned()).collect()
    }
}

#[derive(Debug)]
enum State {
    /// Before the first brace.
    Head,
    Key,
    Value,
    After,
    /// In a string; the text so far if it is withheld.
    Text(Option<String>),
    /// Complete but for the closer.
    Closing,
    /// Behind something that is no call.
    Broken,
}

enum Move {
    Go(usize),
    Wait(usize),
    Over(usize),
}

#[derive(Debug)]
struct BraceReader {
    shared: Arc<Shared>,
    state: State,
    /// True for an object, false for an array.
    stack: Vec<bool>,
    /// No comma is due.
    first: bool,
    name: String,
    /// Top-level keys.
    keys: Vec<String>,
    /// The top-level key came before: its value is read and dropped.
    twice: bool,
    /// The string being read is longer than may be withheld.
    long: bool,
}

impl BraceReader {
    fn go(&mut self, rest: &str, last: bool, request: &Request, out: &mut Emitter) -> Move {
        if !matches!(self.state, State::Text(_)) {
            let body = rest.trim_start();
            if body.len() < rest.len() {
                return Move::Go(rest.len() - body.len());
            }
        }
        match self.state {
            State::Head => self.head(rest, out),
            State::Key => self.key(rest, out),
            State::Value => self.value(rest, request, out),
            State::After => match (rest.as_bytes()[0], self.stack.last()) {
                (b',', Some(object)) => {
                    self.state = if *object { State::Key } else { State::Value };
                    Move::Go(1)
                }
                (b'}', Some(true)) | (b']', Some(false)) => self.close(rest, out),
                _ => self.fail(0, out),
            },
            State::Text(_) => self.text(rest, request, out),
            State::Closing | State::Broken => match self.shared.closes.find(rest, last) {
                Hit::Text => Move::Go(rest.len()),
                Hit::Partial { at } => Move::Wait(at),
                Hit::Marker { at, len, .. } => {
                    self.end(out);
                    let opens = self.shared.spec.opens.contains(&&rest[at..at + len]);
                    Move::Over(if opens { at } else { at + len })
                }
            },
        }
    }

    fn head(&mut self, rest: &str, out: &mut Emitter) -> Move {
        // Beyond the longest name, a brace means nothing, whether it has come yet or not.
        let Some(at) = rest.find('{').filter(|at| *at <= MAX_WORD) else {
            return if rest.len() <= MAX_WORD { Move::Wait(0) } else { self.fail(0, out) };
        };
        let name = rest[..at].trim();
        let name = name.strip_prefix(self.shared.spec.prefix).unwrap_or(name).trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return self.fail(at, out);
        }
        self.name = name.to_owned();
        out.start(name, None);
        out.args("{");
        self.stack.push(true);
        self.state = State::Key;
        Move::Go(at + 1)
    }

    /// Writes unless the value is one that came before.
    fn write(&self, text: &str, out: &mut Emitter) {
        if !self.twice {
            out.args(text);
        }
    }

    fn key(&mut self, rest: &str, out: &mut Emitter) -> Move {
        let quote = self.shared.spec.quote;
        if rest.starts_with('}') {
            return self.close(rest, out);
        }
        if rest.len() < quote.len() && quote.starts_with(rest) {
            return Move::Wait(0);
        }
        let Some(at) = rest.find(':').filter(|at| *at <= MAX_WORD) else {
            return if rest.len() <= MAX_WORD { Move::Wait(0) } else { self.fail(0, out) };
        };
        let key = rest[..at].trim();
        let key = key.strip_prefix(quote).unwrap_or(key).strip_suffix(quote).unwrap_or(key).trim_matches('"');
        if key.is_empty() {
            return self.fail(at, out);
        }
        if self.stack.len() == 1 {
            self.twice = self.keys.iter().any(|k| k == key);
            if self.twice {
                out.note("a parameter came twice; the first one stands");
            }
            self.keys.push(key.to_owned());
        }
        let comma = if std::mem::take(&mut self.first) { "" } else { ", " };
        self.write(&format!("{comma}{}: ", json::quote(key)), out);
        self.state = State::Value;
        Move::Go(at + 1)
    }

    fn accepts(&self, request: &Request) -> JsonTypes {
        match (self.stack.len(), self.keys.last()) {
            (1, Some(key)) => request.tools.accepts(&self.name, key),
            _ => JsonTypes::empty(),
        }
    }

    fn value(&mut self, rest: &str, request: &Request, out: &mut Emitter) -> Move {
        let quote = self.shared.spec.quote;
        let in_array = self.stack.last() == Some(&false);
        if rest.starts_with(']') && in_array {
            return self.close(rest, out);
        }
        if rest.len() < quote.len() && quote.starts_with(rest) {
            return Move::Wait(0);
        }
        let opens = rest.starts_with(quote);
        let container = rest.starts_with(['{', '[']);
        let bare = || rest.find([',', '}', ']']).filter(|at| *at <= MAX_BARE);
        let word = if opens || container { 0 } else { bare().unwrap_or(rest.len()) };
        if word == rest.len() {
            return if rest.len() <= MAX_BARE { Move::Wait(0) } else { self.fail(0, out) };
        }
        if in_array && !std::mem::take(&mut self.first) {
            self.write(", ", out);
        }
        self.first = false;
        if opens {
            let held = self.shared.spec.decode.then(String::new);
            if held.is_none() {
                self.write("\"", out);
            }
            self.state = State::Text(held);
            return Move::Go(quote.len());
        }
        if container {
            if self.stack.len() == MAX_DEPTH {
                return self.fail(0, out);
            }
            let object = rest.starts_with('{');
            self.write(if object { "{" } else { "[" }, out);
            self.stack.push(object);
            self.first = true;
            self.state = if object { State::Key } else { State::Value };
            return Move::Go(1);
        }
        let text = rest[..word].trim();
        let accepts = self.accepts(request);
        let json = if accepts.is_empty() { coerce::json_or_text(text) } else { coerce::coerce(text, accepts) };
        self.write(&json, out);
        self.state = State::After;
        Move::Go(word)
    }

    fn text(&mut self, rest: &str, request: &Request, out: &mut Emitter) -> Move {
        let shared = Arc::clone(&self.shared);
        let (piece, then, closes) = match shared.quote.find(rest, false) {
            Hit::Text => (rest, Move::Go(rest.len()), false),
            Hit::Partial { at } => (&rest[..at], Move::Wait(at), false),
            Hit::Marker { at, len, .. } => (&rest[..at], Move::Go(at + len), true),
        };
        let State::Text(held) = &mut self.state else { return then };
        match held {
            Some(text) if self.long || text.len() + piece.len() > MAX_HELD => {
                self.long = true;
                text.clear();
            }
            Some(text) => text.push_str(piece),
            None if !self.twice && !piece.is_empty() => out.args_with(|args| json::escape_into(piece, args)),
            None => {}
        }
        if closes && self.long {
            return self.fail(piece.len(), out);
        }
        if closes {
            let held = held.take();
            let accepts = self.accepts(request);
            match held {
                None => self.write("\"", out),
                Some(text) if accepts.is_empty() => self.write(&coerce::json_or_text(&text), out),
                Some(text) => self.write(&coerce::coerce(&text, accepts), out),
            }
            self.state = State::After;
        }
        then
    }

    fn close(&mut self, rest: &str, out: &mut Emitter) -> Move {
        self.stack.pop();
        self.first = false;
        if self.stack.is_empty() {
            self.state = State::Closing;
        } else {
            self.write(&rest[..1], out);
            self.state = State::After;
        }
        Move::Go(1)
    }

    /// The closing brace, withheld until the call is known to be over.
    fn end(&mut self, out: &mut Emitter) {
        if matches!(self.state, State::Closing) {
            out.args("}");
            out.end();
        }
    }

    fn fail(&mut self, read: usize, out: &mut Emitter) -> Move {
        out.malformed("");
        self.state = State::Broken;
        Move::Go(read)
    }
}

impl Reader for BraceReader {
    fn read(&mut self, input: &str, last: bool, request: &Request, out: &mut Emitter) -> Read {
        let mut at = 0;
        while at < input.len() {
            match self.go(&input[at..], last, request, out) {
                Move::Go(n) => at += n,
                Move::Wait(n) => return Read::More(at + n),
                Move::Over(n) => return Read::Over(at + n),
            }
        }
        Read::More(at)
    }

    fn run(&self) -> Option<Run> {
        let open = matches!(self.state, State::Text(None)) && !self.twice && !self.long;
        if open { Run::raw(&self.shared.quote, Trim::Nothing) } else { None }
    }

    fn finish(&mut self, stopped: bool, _request: &Request, out: &mut Emitter) -> Option<String> {
        if stopped {
            self.end(out);
            out.abandon("");
        }
        None
    }
}
