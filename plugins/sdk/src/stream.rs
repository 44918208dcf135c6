//! The text machine: content and reasoning in one state, blocks of calls handed to the format's reader.

use std::sync::Arc;

use crate::config::{ParserConfig, ToolChoice};
use crate::emit::{AfterCalls, Emitter, Layout};
use crate::event::{Channel, Step, StopCause, Tail};
use crate::limit::limit;
pub use crate::machine::Machine;
use crate::run::Run;
use crate::scan::{Hit, Markers, distinct};
use crate::syntax::{Enter, Place, Read, Reader, Request, Syntax};
use crate::think::Think;
use crate::tools::ToolSet;

const OPEN: u16 = 0;
const CLOSE: u16 = 1;
const END: u16 = 2;
const DROP: u16 = 3;
/// An opener or closer up to its suffix.
const OPEN_STEM: u16 = 4;
const CLOSE_STEM: u16 = 5;
/// Longest suffix of a marker.
const MAX_SUFFIX: usize = limit(64);
/// Opener `n` of the tool syntax is `CALLS + n`.
const CALLS: u16 = 16;

/// The marker sets of a text format, built once per format.
#[derive(Debug)]
pub struct TextFormat {
    /// Reasoning, if the format has it.
    pub think: Option<Think>,
    /// Tool calls, if the format has them.
    pub syntax: Option<Box<dyn Syntax>>,
    /// Layout whitespace.
    pub layout: Layout,
    /// Literals that are never shown: end-of-turn tokens, frames around text.
    silent: Vec<&'static str>,
    /// Of each opener.
    places: Vec<Place>,
    /// By [`TextFormat::set`].
    sets: [Markers; 4],
    /// What counts only as the first thing of the answer: with and without calls.
    first: [Markers; 2],
}

impl TextFormat {
    /// Compiles the marker sets.
    pub fn new(
        think: Option<Think>,
        syntax: Option<Box<dyn Syntax>>,
        layout: Layout,
        end_tokens: &'static [&'static str],
        dropped: &'static [&'static str],
    ) -> TextFormat {
        let openers = syntax.as_ref().map(|s| s.openers()).unwrap_or_default();
        let calls = |place: Option<Place>| {
            let all = openers.iter().enumerate().filter(move |(_, o)| place.is_none_or(|p| o.place == p));
            all.map(|(n, o)| (o.text.clone(), CALLS + n as u16)).collect::<Vec<_>>()
        };
        let ends = || end_tokens.iter().map(|t| ((*t).to_owned(), END));
        let opens: Vec<_> =
            think.iter().flat_map(|t| t.open.iter().map(|o| (format!("{o}{}", t.label), OPEN))).collect();
        let closes: Vec<_> = think.iter().flat_map(|t| t.close.iter().map(|c| ((*c).to_owned(), CLOSE))).collect();
        let stems = |list: fn(&Think) -> &'static [&'static str], id: u16| {
            think.into_iter().flat_map(move |t| t.stems(list(&t))).map(move |stem| (stem, id))
        };
        let opens: Vec<_> = opens.into_iter().chain(stems(|t| t.open, OPEN_STEM)).collect();
        let closes: Vec<_> = closes.into_iter().chain(stems(|t| t.close, CLOSE_STEM)).collect();
        let frames = || dropped.iter().map(|t| ((*t).to_owned(), DROP));
        let content = |with_calls: bool| {
            let reopen = opens.clone().into_iter().filter(|_| think.is_some_and(|t| t.anywhere));
            let stray = closes.clone().into_iter().filter(|_| think.is_some_and(|t| t.drop_stray_close));
            let calls = if with_calls { calls(Some(Place::Anywhere)) } else { Vec::new() };
            Markers::new(ends().chain(frames()).chain(reopen).chain(stray).chain(calls))
        };
        let reasoning = |with_calls: bool| {
            let interrupt = with_calls && think.is_some_and(|t| t.calls_end_it);
            let calls = if interrupt { calls(Some(Place::Anywhere)) } else { Vec::new() };
            Markers::new(ends().chain(closes.clone()).chain(calls))
        };
        let first = |with_calls: bool| {
            let calls = if with_calls { calls(None) } else { Vec::new() };
            Markers::new(opens.clone().into_iter().chain(calls))
        };
        TextFormat {
            places: openers.iter().map(|o| o.place).collect(),
            sets: [content(false), content(true), reasoning(false), reasoning(true)],
            first: [first(false), first(true)],
            think,
            syntax,
            layout,
            silent: end_tokens.iter().chain(dropped).copied().collect(),
        }
    }

    fn set(&self, channel: Channel, calls: bool) -> &Markers {
        &self.sets[usize::from(channel == Channel::Reasoning) * 2 + usize::from(calls)]
    }

    /// Every literal the machine looks for, for descriptors.
    pub fn markers(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.think.iter().flat_map(|t| t.open.iter().chain(t.close).map(|m| (*m).to_owned())).collect();
        all.extend(self.syntax.iter().flat_map(|s| s.markers()));
        all.extend(self.silent.iter().map(|t| (*t).to_owned()));
        distinct(all)
    }
}

/// A parser of a text format.
#[derive(Debug)]
pub struct TextMachine {
    format: Arc<TextFormat>,
    request: Request,
    /// Calls are read: tools are declared and not turned off.
    calls: bool,
    /// The think opener at the start counts.
    opener: bool,
    /// Something other than white space has been written on this channel.
    begun: bool,
    reader: Option<Box<dyn Reader>>,
    /// The block stands in reasoning that goes on behind it.
    resumes: bool,
    /// What a reader took and gave back: it is text, and may hold markers.
    again: Option<String>,
    held: String,
    out: Emitter,
}

impl TextMachine {
    /// A parser for one message.
    pub fn new(format: Arc<TextFormat>, config: &ParserConfig, tools: Arc<ToolSet>, after: AfterCalls) -> TextMachine {
        let (inside, opener) = format.think.map_or((false, false), |t| t.begin(config));
        let channel = if inside { Channel::Reasoning } else { Channel::Content };
        let calls = !tools.is_empty() && config.tool_choice != ToolChoice::None && format.syntax.is_some();
        let out = Emitter::new(format.layout, after, channel);
        let request = Request::new(config, tools);
        TextMachine {
            format,
            request,
            calls,
            opener,
            begun: false,
            reader: None,
            resumes: false,
            again: None,
            held: String::new(),
            out,
        }
    }

    /// Reports something odd about the configuration with the first push.
    pub fn note(&mut self, text: &str) {
        self.out.note(text);
    }

    /// Writes `insert` before the first content; see [`Emitter::real_newlines`] for the other.
    pub fn prose(&mut self, insert: &str, literal_newlines: bool) {
        self.out.text(insert);
        self.out.real_newlines(literal_newlines);
    }

    /// Reads `input` as far as it can be judged; returns how many bytes were read.
    fn drive(&mut self, input: &str, last: bool) -> usize {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            let (read, go_on) = if self.reader.is_some() { self.read_calls(rest, last) } else { self.text(rest, last) };
            at += read;
            if !go_on {
                break;
            }
        }
        at
    }

    /// Holds back what could not be judged, after reading again what a reader gave back.
    fn keep(&mut self, rest: &str) {
        self.held = rest.to_owned();
        while let Some(mut input) = self.again.take() {
            input.push_str(&self.held);
            let read = self.drive(&input, false);
            self.held = input.split_off(read);
        }
    }

    /// Reads the last text.
    fn drive_all(&mut self, mut input: String, stopped: bool) {
        while !input.is_empty() && (stopped || self.reader.is_none()) {
            let read = self.drive(&input, true);
            let rest = input.split_off(read);
            let again = self.again.take();
            if read == 0 && again.is_none() {
                break;
            }
            input = again.unwrap_or_default() + &rest;
        }
    }

    /// Hands `rest` to the reader of the open block.
    fn read_calls(&mut self, rest: &str, last: bool) -> (usize, bool) {
        let Some(reader) = self.reader.as_mut() else { return (0, true) };
        match reader.read(rest, last, &self.request, &mut self.out) {
            Read::More(n) => (n, false),
            Read::Over(n) => {
                self.reader = None;
                if std::mem::take(&mut self.resumes) {
                    self.out.resume_reasoning();
                }
                (n, true)
            }
            Read::Text(n, text) => {
                self.reader = None;
                self.begun = true;
                self.again = Some(text);
                (n, false)
            }
        }
    }

    /// Reads text up to the next marker.
    fn text(&mut self, rest: &str, last: bool) -> (usize, bool) {
        if !self.begun {
            let body = rest.trim_start();
            let space = rest.len() - body.len();
            if space > 0 {
                self.out.text(&rest[..space]);
                return (space, true);
            }
            match self.format.first[usize::from(self.calls)].find_here(rest, last) {
                Hit::Partial { .. } => return (0, false),
                Hit::Marker { len, id: OPEN, .. } if self.opener => {
                    self.think_opened();
                    return (len, true);
                }
                Hit::Marker { len, id: OPEN_STEM, .. } if self.opener => {
                    return self.suffixed(rest, len, OPEN, last);
                }
                Hit::Marker { id, .. } if id >= CALLS && self.out.channel() == Channel::Content => {
                    if let Some(done) = self.enter(rest, id, last) {
                        return done;
                    }
                    self.begun = true;
                }
                _ => self.begun = true,
            }
        }
        match self.format.set(self.out.channel(), self.calls).find(rest, last) {
            Hit::Text => {
                self.out.text(rest);
                (rest.len(), true)
            }
            Hit::Partial { at } => {
                self.out.text(&rest[..at]);
                (at, false)
            }
            Hit::Marker { at, .. } if at > 0 => {
                self.out.text(&rest[..at]);
                (at, true)
            }
            Hit::Marker { len, id, .. } => self.marker(rest, len, id, last),
        }
    }

    /// Acts on the marker that `rest` begins with.
    fn marker(&mut self, rest: &str, len: usize, id: u16, last: bool) -> (usize, bool) {
        match id {
            OPEN => self.think_opened(),
            OPEN_STEM => return self.suffixed(rest, len, OPEN, last),
            CLOSE_STEM => return self.suffixed(rest, len, CLOSE, last),
            CLOSE => {
                if self.out.channel() == Channel::Reasoning {
                    self.out.switch(Channel::Content);
                    self.begun = false;
                    self.opener = false;
                }
            }
            END => self.out.end_token(&rest[..len]),
            DROP => self.out.frame(),
            _ => {
                if let Some(done) = self.enter(rest, id, last) {
                    return done;
                }
                let first = rest.chars().next().map_or(rest.len(), char::len_utf8);
                self.out.text(&rest[..first]);
                return (first, true);
            }
        }
        (len, true)
    }

    /// A marker with a suffix: it goes on to its bracket.
    fn suffixed(&mut self, rest: &str, stem: usize, id: u16, last: bool) -> (usize, bool) {
        let suffix = rest[stem..].find(|c: char| !c.is_ascii_alphanumeric());
        match suffix {
            Some(n) if n <= MAX_SUFFIX && rest[stem + n..].starts_with('>') => {
                self.marker(rest, stem + n + 1, id, last)
            }
            None if !last && rest.len() - stem <= MAX_SUFFIX => (0, false),
            _ => {
                self.begun = true;
                self.out.text(&rest[..stem]);
                (stem, true)
            }
        }
    }

    fn think_opened(&mut self) {
        // An opener that the prompt already wrote is dropped.
        self.out.switch(Channel::Reasoning);
        self.begun = true;
    }

    /// Asks the syntax about an opener; `None` if it is text.
    fn enter(&mut self, rest: &str, id: u16, last: bool) -> Option<(usize, bool)> {
        let syntax = self.format.syntax.as_ref()?;
        match syntax.enter(usize::from(id - CALLS), rest, last, &self.request) {
            Enter::Hold => Some((0, false)),
            Enter::Text => None,
            Enter::Calls(read, reader) => {
                // What counts only at the start is a guess until its first call is certain.
                let reasoning = self.out.channel() == Channel::Reasoning;
                self.resumes = reasoning && self.format.think.is_some_and(|t| t.resumes);
                if self.format.places[usize::from(id - CALLS)] == Place::Anywhere {
                    self.out.enter_calls();
                }
                self.begun = true;
                self.reader = Some(reader);
                Some((read, true))
            }
        }
    }

    /// True if the delta can go out unchanged, in a text whose markers begin with more bytes than a run tells apart.
    fn passes(&self, text: &str) -> bool {
        let Some(trim) = self.out.text_passes() else { return false };
        self.begun
            && self.reader.is_none()
            && self.held.is_empty()
            && text.chars().next_back().is_some_and(|c| !trim.has(c))
            && self.format.set(self.out.channel(), self.calls).is_clear(text)
    }
}

impl Machine for TextMachine {
    fn push(&mut self, text: &str) -> Step {
        if self.passes(text) {
            return Step::Pass(self.out.channel());
        }
        let joined = (!self.held.is_empty()).then(|| std::mem::take(&mut self.held) + text);
        let input = joined.as_deref().unwrap_or(text);
        let read = self.drive(input, false);
        self.keep(&input[read..]);
        self.out.step()
    }

    fn run(&self) -> Option<Run> {
        match &self.reader {
            _ if !self.held.is_empty() => None,
            Some(reader) => Some(reader.run()?.of_call(self.out.args_pass()?)),
            None if self.begun => {
                let markers = self.format.set(self.out.channel(), self.calls);
                Run::text(self.out.channel(), Some(markers), self.out.text_passes()?)
            }
            None => None,
        }
    }

    fn passed(&mut self, text: &str) {
        self.reader.iter_mut().for_each(|reader| reader.passed(text));
    }

    fn cut(&mut self) {
        self.reader.iter_mut().for_each(|reader| reader.cut());
    }

    fn held(&self) -> usize {
        self.held.len() + self.again.as_ref().map_or(0, String::len)
    }

    fn finish(&mut self, cause: &StopCause) -> Tail {
        let stopped = cause.is_stop();
        let mut input = std::mem::take(&mut self.held);
        // What may be a marker cut by the token limit is neither text nor markup: it is dropped.
        if !stopped && self.reader.is_none() && !input.is_empty() {
            self.out.discard_pending();
            input.clear();
        }
        self.drive_all(input, stopped);
        if let Some(mut reader) = self.reader.take()
            && let Some(text) = reader.finish(stopped, &self.request, &mut self.out)
            && stopped
        {
            self.begun = true;
            self.drive_all(text, true);
        }
        self.out.tail(cause)
    }
}
