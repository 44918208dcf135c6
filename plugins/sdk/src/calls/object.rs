//! Reads one call object: `{"name": ..., "arguments": {...}}`, keys in any order, arguments streamed.

use super::JsonCalls;
use crate::emit::Emitter;
use crate::json::{self, Checker, Fed};
use crate::limit::limit;
use crate::run::Run;
use crate::syntax::Request;

/// Longest key, name or id.
const MAX_WORD: usize = limit(4096);
/// Longest arguments that are withheld because the name has not come yet.
const MAX_HELD: usize = limit(1 << 20);

#[derive(Debug)]
enum State {
    Open,
    Key,
    KeyText(Checker),
    Colon,
    Value(Checker),
    After,
    /// The whole object is the arguments of the function that the request names.
    Bare(Checker),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Name,
    Args,
    Id,
    /// An object that holds the call.
    Nested,
    Other,
}

/// The arguments so far.
#[derive(Debug, PartialEq, Eq)]
enum Args {
    None,
    /// Streamed; the closing brace is withheld until the call ends.
    Streaming {
        done: bool,
    },
    /// Complete, but without a name to go with.
    Held(String),
}

/// What feeding an object did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    More,
    /// The object is complete after that many bytes.
    Done(usize),
    /// It is no call.
    Bad(usize),
}

/// One call object.
#[derive(Debug)]
pub(crate) struct Object {
    spec: &'static JsonCalls,
    /// A guess: nothing is emitted before a declared name and arguments are seen.
    guess: bool,
    state: State,
    slot: Slot,
    word: String,
    /// The word was longer than it may be: it is read to its end and no call's.
    long: bool,
    name: Option<String>,
    id: Option<String>,
    args: Args,
    /// In the object that holds the call.
    inside: bool,
}

impl Object {
    pub(crate) fn new(spec: &'static JsonCalls, guess: bool) -> Object {
        Object {
            spec,
            guess,
            state: State::Open,
            slot: Slot::Other,
            word: String::new(),
            long: false,
            name: None,
            id: None,
            args: Args::None,
            inside: false,
        }
    }

    /// True once the call has been announced.
    pub(crate) fn is_certain(&self) -> bool {
        matches!(self.args, Args::Streaming { .. })
    }

    /// The run of arguments that the text is in.
    pub(crate) fn run(&self) -> Option<Run> {
        match &self.state {
            State::Value(checker) if self.slot == Slot::Args && self.args == Args::Streaming { done: false } => {
                checker.run()
            }
            State::Bare(checker) => checker.run(),
            _ => None,
        }
    }

    /// The run ended within an escape.
    pub(crate) fn cut(&mut self) {
        if let State::Value(checker) | State::Bare(checker) = &mut self.state {
            checker.cut();
        }
    }

    pub(crate) fn feed(&mut self, text: &str, request: &Request, out: &mut Emitter) -> Outcome {
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let moved = match self.state {
                State::KeyText(_) => self.key_text(rest, request, out),
                State::Value(_) => self.value(rest, request, out),
                State::Bare(_) => match self.bare(rest, out) {
                    Outcome::Done(n) => return Outcome::Done(at + n),
                    Outcome::Bad(n) => return Outcome::Bad(at + n),
                    Outcome::More => return Outcome::More,
                },
                _ => {
                    let byte = rest.as_bytes()[0];
                    if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                        at += 1;
                        continue;
                    }
                    if byte == b'}' && self.inside && matches!(self.state, State::Key | State::After) {
                        self.inside = false;
                        self.state = State::After;
                        at += 1;
                        continue;
                    }
                    if byte == b'}' && matches!(self.state, State::Key) && self.is_bare("", request) {
                        self.begin_bare("}", request, out);
                        return Outcome::Done(at + 1);
                    }
                    if byte == b'}' && matches!(self.state, State::Key | State::After) {
                        let ended = self.end(request, out);
                        return if ended { Outcome::Done(at + 1) } else { Outcome::Bad(at + 1) };
                    }
                    self.structure(byte, rest, request, out)
                }
            };
            match moved {
                Ok(n) => at += n,
                // Where it went wrong, wherever the deltas are cut.
                Err(n) => return Outcome::Bad(at + n),
            }
        }
        Outcome::More
    }

    fn structure(&mut self, byte: u8, rest: &str, request: &Request, out: &mut Emitter) -> Result<usize, usize> {
        self.long = false;
        self.state = match (&self.state, byte) {
            (State::Open, b'{') | (State::After, b',') => State::Key,
            (State::Key, b'"') => {
                self.word.clear();
                State::KeyText(Checker::default())
            }
            (State::Colon, b':') => {
                self.word.clear();
                State::Value(Checker::default())
            }
            _ => return Err(0),
        };
        if matches!(self.state, State::KeyText(_)) {
            return self.key_text(rest, request, out);
        }
        Ok(1)
    }

    /// Whether the object that begins with `key` is the arguments of the function that the request names.
    fn is_bare(&self, key: &str, request: &Request) -> bool {
        let fresh = self.guess && self.name.is_none() && self.args == Args::None && self.id.is_none();
        let Some(named) = request.named.as_deref().filter(|_| fresh && self.spec.bare_arguments) else { return false };
        let declared = request.tools.get(named).is_some_and(|t| t.params.is_empty() || t.param(key).is_some());
        !self.spec.name_keys.contains(&key) && (key.is_empty() || declared)
    }

    /// Announces the named function; `text` is what of its arguments follows the opening brace.
    fn begin_bare(&mut self, text: &str, request: &Request, out: &mut Emitter) {
        self.name = request.named.clone();
        self.announce(request, out);
        self.args = Args::Streaming { done: text == "}" };
        out.args("{");
        if text == "}" {
            out.args("}");
            out.end();
            return;
        }
        let mut checker = Checker::default();
        let mut seen = String::new();
        checker.feed("{", &mut seen);
        out.args_with(|args| checker.feed(text, args));
        self.state = State::Bare(checker);
    }

    fn bare(&mut self, rest: &str, out: &mut Emitter) -> Outcome {
        let State::Bare(checker) = &mut self.state else { return Outcome::Bad(0) };
        match out.args_with(|args| checker.feed(rest, args)) {
            Fed::More => Outcome::More,
            Fed::Bad(n) => Outcome::Bad(n),
            Fed::Done(n) => {
                out.end();
                Outcome::Done(n)
            }
        }
    }

    fn key_text(&mut self, rest: &str, request: &Request, out: &mut Emitter) -> Result<usize, usize> {
        let State::KeyText(checker) = &mut self.state else { return Err(0) };
        let fed = checker.feed(rest, &mut self.word);
        self.bound(MAX_WORD);
        match fed {
            Fed::More => Ok(rest.len()),
            Fed::Bad(n) => Err(n),
            Fed::Done(n) if self.long => Err(n),
            Fed::Done(n) => {
                let key = json::decode(&self.word).ok_or(n)?;
                if self.is_bare(&key, request) {
                    let word = std::mem::take(&mut self.word);
                    self.begin_bare(&word, request, out);
                    return Ok(n);
                }
                let among = |keys: &[&str]| keys.contains(&key.as_str());
                self.slot = if self.spec.name_is_key {
                    if self.name.is_some() {
                        return Err(n);
                    }
                    self.name = Some(key);
                    Slot::Args
                } else if among(self.spec.name_keys) && self.name.is_none() {
                    Slot::Name
                } else if among(self.spec.args_keys) && self.args == Args::None {
                    Slot::Args
                } else if self.spec.nested && !self.inside && key == "function" {
                    Slot::Nested
                } else if self.spec.id_key == Some(key.as_str()) {
                    Slot::Id
                } else if self.guess && self.name.is_none() && self.args == Args::None && key != "type" {
                    // An answer in JSON; calls begin with their name.
                    return Err(n);
                } else {
                    Slot::Other
                };
                self.state = State::Colon;
                Ok(n)
            }
        }
    }

    fn value(&mut self, rest: &str, request: &Request, out: &mut Emitter) -> Result<usize, usize> {
        if self.word.is_empty() && !self.long && self.args == Args::None && self.slot == Slot::Args {
            // The first character decides whether the arguments can stream.
            let body = rest.trim_start();
            if body.len() < rest.len() {
                return Ok(rest.len() - body.len());
            }
            if body.starts_with('{') && self.may_start(request) {
                self.announce(request, out);
                self.args = Args::Streaming { done: false };
            }
        }
        if self.slot == Slot::Nested && self.word.is_empty() {
            let body = rest.trim_start();
            if body.len() < rest.len() {
                return Ok(rest.len() - body.len());
            }
            if body.starts_with('{') {
                self.inside = true;
                self.state = State::Key;
                return Ok(1);
            }
            self.slot = Slot::Other;
        }
        let State::Value(checker) = &mut self.state else { return Err(0) };
        let streaming = self.slot == Slot::Args && self.args == Args::Streaming { done: false };
        let fed = if streaming {
            out.args_with(|args| {
                let fed = checker.feed(rest, args);
                if matches!(fed, Fed::Done(_)) {
                    args.pop();
                }
                fed
            })
        } else if self.slot == Slot::Other {
            self.word.clear();
            checker.feed(rest, &mut self.word)
        } else {
            checker.feed(rest, &mut self.word)
        };
        if self.slot != Slot::Other {
            self.bound(if self.slot == Slot::Args { MAX_HELD } else { MAX_WORD });
        }
        match fed {
            Fed::More => Ok(rest.len()),
            Fed::Bad(n) => Err(n),
            Fed::Done(n) if self.long => Err(n),
            Fed::Done(n) => {
                self.end_value(streaming, request).ok_or(n)?;
                self.state = State::After;
                Ok(n)
            }
        }
    }

    /// Keeps no more of a word than `max`.
    fn bound(&mut self, max: usize) {
        if self.word.len() > max {
            self.long = true;
            self.word.clear();
        }
    }

    /// Files the complete value away; `None` if it can't be what its key says.
    fn end_value(&mut self, streaming: bool, request: &Request) -> Option<()> {
        let word = std::mem::take(&mut self.word);
        let word = word.trim();
        match self.slot {
            Slot::Args if streaming => self.args = Args::Streaming { done: true },
            Slot::Args => {
                let text = match word.as_bytes().first() {
                    Some(b'{') => word.to_owned(),
                    Some(b'n') => "{}".to_owned(),
                    Some(b'"') => match json::decode(word)?.trim() {
                        "" | "null" => "{}".to_owned(),
                        inner => json::object_text(inner)?,
                    },
                    _ => return None,
                };
                self.args = Args::Held(text);
            }
            Slot::Name => {
                let name = json::decode(word)?;
                let known = request.tools.get(&name).is_some();
                self.name = Some(name).filter(|n| !n.is_empty() && (known || !self.guess));
                self.name.as_ref()?;
            }
            Slot::Id => self.id = Some(json::decode(word).unwrap_or_else(|| word.to_owned())),
            Slot::Nested | Slot::Other => {}
        }
        Some(())
    }

    fn announce(&mut self, request: &Request, out: &mut Emitter) {
        let name = self.name.as_deref().unwrap_or_default();
        let id = self.spec.id(self.id.take(), request, name, out.started());
        out.start(name, id);
    }

    fn may_start(&self, request: &Request) -> bool {
        self.name.as_deref().is_some_and(|name| !self.guess || request.tools.get(name).is_some())
    }

    /// The object is complete; `false` if it was no call.
    fn end(&mut self, request: &Request, out: &mut Emitter) -> bool {
        match std::mem::replace(&mut self.args, Args::None) {
            Args::Streaming { .. } => out.args("}"),
            _ if !self.may_start(request) => return false,
            Args::None if self.guess => return false,
            held => {
                self.announce(request, out);
                out.args(if let Args::Held(text) = &held { text } else { "{}" });
            }
        }
        out.end();
        true
    }

    /// The message ends here, ended by the model: a call whose arguments are complete stands.
    pub(crate) fn stop(&mut self, request: &Request, out: &mut Emitter) -> bool {
        match self.args {
            Args::Streaming { done: true } | Args::Held(_) => self.end(request, out),
            _ => false,
        }
    }
}
