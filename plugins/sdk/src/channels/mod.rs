//! The channel framer: output as a row of messages, each with a header that says where its body goes.

mod arguments;
mod spec;
mod tokens;

pub use spec::{ChannelWire, Channels, Route, RouteRule};

use std::sync::Arc;

use crate::config::{ParserConfig, ToolChoice};
use crate::emit::{AfterCalls, Emitter, Layout};
use crate::event::{Channel, Step, StopCause, Tail};
use crate::json::Checker;
use crate::limit::{limit, window};
use crate::run::Run;
use crate::scan::{Hit, Markers, distinct};
use crate::stream::Machine;
use crate::syntax::{Read, Reader, Request, Syntax};
use crate::tools::ToolSet;
use tokens::{Origin, Specials};

/// Longest header.
const MAX_HEADER: usize = limit(1024);

const START: u16 = 0;
const END: u16 = 1;
const IGNORED: u16 = 2;
const HEADER: u16 = 3;
/// Body literal `n` is `BODY + n`.
const BODY: u16 = 16;

/// [`Channels`] compiled for parsing.
#[derive(Debug)]
pub struct ChannelFormat {
    spec: &'static Channels,
    syntax: Option<Box<dyn Syntax>>,
    /// What may stand at the very beginning.
    first: Markers,
    /// What may follow in a header.
    header: Markers,
    /// What ends a body.
    body: Markers,
}

impl ChannelFormat {
    /// Compiles the marker sets.
    pub fn new(spec: &'static Channels, syntax: Option<Box<dyn Syntax>>) -> ChannelFormat {
        let list = |list: &'static [&'static str], id: u16| list.iter().map(move |text| (*text, id));
        let bodies = || spec.bodies.iter().enumerate().map(|(n, text)| (*text, BODY + n as u16));
        let frame = || list(spec.starts, START).chain(list(spec.ends, END)).chain(list(spec.ignored, IGNORED));
        ChannelFormat {
            spec,
            syntax,
            first: Markers::new(frame().chain(bodies()).chain(list(spec.headers, HEADER))),
            header: Markers::new(frame().chain(bodies())),
            body: Markers::new(list(spec.starts, START).chain(list(spec.ends, END))),
        }
    }

    /// Every literal the machine looks for, for descriptors.
    pub fn markers(&self) -> Vec<String> {
        let s = self.spec;
        let all = [s.starts, s.bodies, s.ends, s.ignored];
        let mut all: Vec<String> = all.iter().flat_map(|list| list.iter().map(|t| (*t).to_owned())).collect();
        all.extend(self.syntax.iter().flat_map(|s| s.markers()));
        distinct(all)
    }
}

#[derive(Debug)]
enum State {
    /// Nothing has come yet.
    Begin,
    /// In a header.
    Header,
    /// In a body that is text.
    Text,
    /// In a body that nobody sees.
    Ignore,
    /// In the arguments of a call; `None` before they begin.
    Args(Option<Checker>),
    /// Behind complete arguments.
    Complete,
    /// In a body that the tool syntax reads.
    Calls(Box<dyn Reader>),
}

/// A parser of a channel format.
#[derive(Debug)]
pub struct ChannelMachine {
    format: Arc<ChannelFormat>,
    request: Request,
    calls: bool,
    state: State,
    /// Channels that have had a body: content, reasoning.
    used: [bool; 2],
    specials: Arc<Specials>,
    /// Of what is being read.
    origin: Origin,
    held: String,
    out: Emitter,
}

impl ChannelMachine {
    /// A parser for one message.
    pub fn new(format: Arc<ChannelFormat>, config: &ParserConfig, tools: Arc<ToolSet>, layout: Layout) -> Self {
        let calls = !tools.is_empty() && config.tool_choice != ToolChoice::None;
        let request = Request::new(config, tools);
        // What follows a call has a header of its own, so it is never stray text.
        let out = Emitter::new(layout, AfterCalls::Content, Channel::Content);
        let s = format.spec;
        let specials = Arc::new(Specials::new(config, &[s.starts, s.bodies, s.ends, s.ignored]));
        let (state, origin, used, held) = (State::Begin, Origin::Unknown, [false; 2], String::new());
        ChannelMachine { format, request, calls, state, used, specials, origin, held, out }
    }

    /// Reports something odd about the configuration with the first push.
    pub fn note(&mut self, text: &str) {
        self.out.note(text);
    }

    fn drive(&mut self, input: &str, last: bool) -> usize {
        let mut at = 0;
        while at < input.len() {
            let (read, go_on) = self.go(&input[at..], last);
            at += read;
            if !go_on {
                break;
            }
        }
        at
    }

    fn go(&mut self, rest: &str, last: bool) -> (usize, bool) {
        match &mut self.state {
            State::Begin => self.begin(rest, last),
            State::Header => self.header(rest, last),
            State::Args(_) => self.arguments(rest, last),
            State::Calls(_) => self.read_calls(rest, last),
            State::Text | State::Ignore | State::Complete => self.body(rest, last),
        }
    }

    /// The first text decides whether there is a header at all.
    fn begin(&mut self, rest: &str, last: bool) -> (usize, bool) {
        match self.format.first.find_here(rest, last) {
            Hit::Partial { .. } => return (0, false),
            Hit::Marker { len, .. } if self.origin == Origin::Plain && self.specials.is_one(&rest[..len]) => {
                self.open(Route::Content);
            }
            Hit::Marker { .. } => self.state = State::Header,
            Hit::Text if self.calls && self.format.spec.names_first => match self.begins_with_name(rest, last) {
                None => return (0, false),
                Some(true) => self.state = State::Header,
                Some(false) => self.open(Route::Content),
            },
            Hit::Text => self.open(Route::Content),
        }
        (0, true)
    }

    /// Whether a declared function's name and a body literal stand here; `None` if more text must tell.
    fn begins_with_name(&self, rest: &str, last: bool) -> Option<bool> {
        let at = match self.format.header.find(rest, last) {
            Hit::Marker { at, id, .. } => return Some(id >= BODY && self.request.tools.get(&rest[..at]).is_some()),
            Hit::Partial { at } => at,
            Hit::Text => rest.len(),
        };
        let may = !last && self.request.tools.iter().any(|tool| tool.name.starts_with(&rest[..at]));
        if may { None } else { Some(false) }
    }

    fn header(&mut self, rest: &str, last: bool) -> (usize, bool) {
        let (seen, full) = window(rest, MAX_HEADER, last);
        match self.frame(&self.format.header, seen, full) {
            Hit::Marker { at, len, id } if id >= BODY => {
                let route = (self.format.spec.route)(&seen[..at], usize::from(id - BODY), &self.request);
                self.open(route);
                (at + len, true)
            }
            // A header begins anew; what stood before it is noise.
            Hit::Marker { at, len, .. } => (at + len, true),
            Hit::Text | Hit::Partial { .. } if seen.len() == rest.len() => (0, false),
            Hit::Text | Hit::Partial { .. } => {
                self.open(Route::Content);
                (0, true)
            }
        }
    }

    /// The next frame of `markers`; ordinary tokens hold none.
    fn frame(&self, markers: &Markers, rest: &str, last: bool) -> Hit {
        if self.origin == Origin::Plain { Hit::Text } else { markers.find(rest, last) }
    }

    /// Begins a body.
    fn open(&mut self, route: Route) {
        self.state = match route {
            Route::Content => self.open_text(Channel::Content),
            Route::Reasoning => self.open_text(Channel::Reasoning),
            Route::Ignore => State::Ignore,
            // Nobody asked for calls: the body is text.
            Route::Call(..) | Route::Calls if !self.calls => self.open_text(Channel::Content),
            Route::Call(name, _) if self.format.spec.tagged => self.reader(Some(&name)),
            Route::Call(name, id) => {
                self.out.start(&name, id);
                State::Args(None)
            }
            Route::Calls => self.reader(None),
        };
    }

    fn reader(&self, named: Option<&str>) -> State {
        self.format.syntax.as_ref().and_then(|s| s.body(named)).map_or(State::Ignore, State::Calls)
    }

    fn open_text(&mut self, channel: Channel) -> State {
        self.out.switch(channel);
        let used = &mut self.used[usize::from(channel == Channel::Reasoning)];
        if std::mem::replace(used, true) {
            self.out.join(self.format.spec.joint);
        }
        State::Text
    }

    /// Reads a body up to its end.
    fn body(&mut self, rest: &str, last: bool) -> (usize, bool) {
        let format = Arc::clone(&self.format);
        let (text, done) = match self.frame(&format.body, rest, last) {
            Hit::Text => (rest, (rest.len(), true)),
            Hit::Partial { at } => (&rest[..at], (at, false)),
            Hit::Marker { at, .. } if at > 0 => (&rest[..at], (at, true)),
            Hit::Marker { len, .. } => {
                self.close();
                return (len, true);
            }
        };
        if matches!(self.state, State::Text) {
            self.out.text(text);
        }
        done
    }

    /// Hands the body, up to its end, to the reader of calls.
    fn read_calls(&mut self, rest: &str, last: bool) -> (usize, bool) {
        let (text, over) = match self.frame(&self.format.body, rest, last) {
            Hit::Text => (rest, false),
            Hit::Partial { at } => (&rest[..at], false),
            Hit::Marker { at, .. } => (&rest[..at], true),
        };
        let State::Calls(reader) = &mut self.state else { return (0, true) };
        match reader.read(text, last || over, &self.request, &mut self.out) {
            Read::More(_) if over => {
                reader.finish(true, &self.request, &mut self.out);
                self.state = State::Ignore;
                (text.len(), true)
            }
            Read::More(n) => (n, text.len() == rest.len() && n == text.len()),
            Read::Over(n) | Read::Text(n, _) => {
                self.state = State::Ignore;
                (n, true)
            }
        }
    }

    /// The body ends.
    fn close(&mut self) {
        match self.state {
            State::Complete => {
                self.out.args("}");
                self.out.end();
            }
            State::Args(_) => self.out.abandon(""),
            _ => {}
        }
        self.state = State::Header;
    }

    fn feed(&mut self, text: &str) {
        let joined = (!self.held.is_empty()).then(|| std::mem::take(&mut self.held) + text);
        let input = joined.as_deref().unwrap_or(text);
        let read = self.drive(input, false);
        self.held = input[read..].to_owned();
    }
}

impl Machine for ChannelMachine {
    fn push(&mut self, text: &str) -> Step {
        self.feed(text);
        self.out.step()
    }

    fn push_tokens(&mut self, text: &str, ids: &[u32]) -> Step {
        if ids.is_empty() || self.specials.is_empty() {
            return self.push(text);
        }
        let specials = Arc::clone(&self.specials);
        let pieces = specials.pieces(text, ids);
        self.origin = Origin::Plain;
        if let [(text, Origin::Plain)] = pieces[..]
            && let Some(mut run) = self.run()
            && let Some(step) = run.step(text)
        {
            self.passed(text);
            if run.is_cut() {
                self.cut();
            }
            return step;
        }
        for (text, origin) in pieces {
            self.origin = origin;
            self.feed(text);
        }
        // What is still held at the end came as text.
        self.origin = Origin::Plain;
        self.out.step()
    }

    fn run(&self) -> Option<Run> {
        if !self.held.is_empty() {
            return None;
        }
        let State::Text = self.state else { return self.args_run() };
        let markers = (self.origin != Origin::Plain).then_some(&self.format.body);
        Run::text(self.out.channel(), markers, self.out.text_passes()?)
    }

    fn passed(&mut self, text: &str) {
        if let State::Calls(reader) = &mut self.state {
            reader.passed(text);
        }
    }

    fn cut(&mut self) {
        match &mut self.state {
            State::Args(Some(checker)) => checker.cut(),
            State::Calls(reader) => reader.cut(),
            _ => {}
        }
    }

    fn held(&self) -> usize {
        self.held.len()
    }

    fn finish(&mut self, cause: &StopCause) -> Tail {
        let stopped = cause.is_stop();
        let input = std::mem::take(&mut self.held);
        let mut at = 0;
        while stopped && at < input.len() {
            let read = self.drive(&input[at..], true);
            if read == 0 {
                break;
            }
            at += read;
        }
        if let State::Calls(reader) = &mut self.state {
            reader.finish(stopped, &self.request, &mut self.out);
        }
        if stopped {
            self.close();
        }
        self.out.tail(cause)
    }
}
