//! The declarative engine: a format that the model's tokenizer declares itself (`response_template`), passed in as the
//! option of that name. Fields are regions of the output between openers and closers; text and thinking stream, the
//! rest is read when its region closes.

mod content;
mod spec;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{ParserConfig, ToolChoice};
use crate::emit::{AfterCalls, Emitter, Layout};
use crate::event::{Channel, Step, StopCause, Tail};
use crate::limit::{keep, limit};
use crate::scan::{Hit, Markers};
use crate::stream::Machine;
use crate::tools::ToolSet;
use spec::{Anchor, Edge, Field, Spec, Target};

/// Longest text that a pattern is tried on.
const MAX_EDGE: usize = limit(1024);
/// Longest region that is withheld.
const MAX_HELD: usize = limit(1 << 20);

/// JSON Schema of the options.
pub const OPTIONS_SCHEMA: &str = r#"{"type":"object","properties":{"response_template":{"type":"object","description":"The tokenizer's declaration"},"after_calls":{"enum":["drop","content"],"default":"drop","description":"What becomes of text that follows a tool call"}},"required":["response_template"],"additionalProperties":false}"#;

#[derive(Debug)]
enum State {
    /// Between fields.
    Outside,
    /// In this field.
    Inside(usize),
}

/// A parser of a declared format.
#[derive(Debug)]
pub struct TemplateMachine {
    spec: Spec,
    tools: Arc<ToolSet>,
    state: State,
    /// Openers; ids are places in `edges`.
    openers: Markers,
    /// Field and edge of each opener.
    edges: Vec<(usize, usize)>,
    /// Closers of each field, and openers where it has none.
    closers: Vec<Markers>,
    captures: BTreeMap<String, String>,
    /// The region so far, if it does not stream.
    region: String,
    used: Vec<bool>,
    held: String,
    out: Emitter,
}

/// What an edge turned out to be.
enum Found {
    /// This many bytes of it.
    Yes(usize),
    No,
    /// More text must tell.
    Perhaps,
}

impl TemplateMachine {
    /// A parser for one message. A declaration that can't be used is reported with a note, and all text is content.
    pub fn boxed(config: &ParserConfig, tools: Arc<ToolSet>, after: AfterCalls) -> Box<dyn Machine> {
        let options: serde_json::Value = serde_json::from_str(&config.options).unwrap_or_default();
        let declared = options.get("response_template").ok_or_else(|| "option response_template is missing".to_owned());
        let (spec, problem) = match declared.and_then(Spec::compile) {
            Ok(spec) => (spec, None),
            Err(problem) => (Spec { anchor: Anchor::None, fields: Vec::new(), sink: None }, Some(problem)),
        };
        let mut machine = TemplateMachine::new(spec, config, tools, after);
        if let Some(problem) = problem {
            machine.out.note(&format!("response_template: {problem}"));
        }
        Box::new(machine)
    }

    fn new(spec: Spec, config: &ParserConfig, tools: Arc<ToolSet>, after: AfterCalls) -> TemplateMachine {
        let calls = !tools.is_empty() && config.tool_choice != ToolChoice::None;
        let mut edges = Vec::new();
        let mut openers = Vec::new();
        for (n, field) in spec.fields.iter().enumerate().filter(|(_, f)| calls || f.target != Target::Calls) {
            for (e, edge) in field.open.iter().enumerate() {
                openers.push((edge.literal().to_owned(), edges.len() as u16));
                edges.push((n, e));
            }
        }
        let closers = spec.fields.iter().map(|field| match field.close.is_empty() {
            true => Markers::new(openers.clone()),
            false => Markers::new(field.close.iter().enumerate().map(|(n, e)| (e.literal().to_owned(), n as u16))),
        });
        let mut machine = TemplateMachine {
            closers: closers.collect(),
            openers: Markers::new(openers),
            used: vec![false; spec.fields.len()],
            tools,
            state: State::Outside,
            edges,
            captures: BTreeMap::new(),
            region: String::new(),
            held: String::new(),
            out: Emitter::new(Layout::NEWLINES, after, Channel::Content),
            spec,
        };
        machine.outside();
        machine.prefix(&config.prompt_tail);
        machine
    }

    /// Reads the part of the prompt that belongs to the answer, and says nothing about it.
    fn prefix(&mut self, tail: &str) {
        let at = match &self.spec.anchor {
            Anchor::None => None,
            Anchor::Literal(text) => tail.rfind(text.as_str()).map(|at| at + text.len()),
            Anchor::Pattern(pattern) => pattern.find_iter(tail).last().map(|m| m.end()),
        };
        if let Some(at) = at {
            let read = self.drive(&tail[at..], false);
            self.held = tail[at + read..].to_owned();
            self.out.step();
        }
    }

    /// Text between fields goes to the field without an opener.
    fn outside(&mut self) {
        self.state = State::Outside;
        let target = self.spec.sink.map_or(Target::Content, |n| self.spec.fields[n].target);
        self.out.switch(if target == Target::Thinking { Channel::Reasoning } else { Channel::Content });
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
        let field = match self.state {
            State::Outside => None,
            State::Inside(n) => Some(n),
        };
        let markers = field.map_or(&self.openers, |n| &self.closers[n]);
        let (at, id) = match markers.find(rest, last) {
            Hit::Text => {
                self.text(field, rest);
                return (rest.len(), true);
            }
            Hit::Partial { at } => {
                self.text(field, &rest[..at]);
                return (at, false);
            }
            Hit::Marker { at, id, .. } => (at, usize::from(id)),
        };
        if at > 0 {
            self.text(field, &rest[..at]);
            return (at, true);
        }
        let closes = field.filter(|n| !self.spec.fields[*n].close.is_empty());
        let found = match closes {
            Some(n) => edge(&self.spec.fields[n].close[id], rest, last, &mut self.captures),
            None => {
                let (n, e) = self.edges[id];
                edge(&self.spec.fields[n].open[e], rest, last, &mut self.captures)
            }
        };
        match found {
            Found::Perhaps => (0, false),
            Found::No => {
                let first = rest.chars().next().map_or(rest.len(), char::len_utf8);
                self.text(field, &rest[..first]);
                (first, true)
            }
            Found::Yes(len) => {
                if let Some(n) = field {
                    self.close(n);
                }
                if closes.is_none() {
                    self.open(self.edges[id].0);
                }
                (len, true)
            }
        }
    }

    fn open(&mut self, n: usize) {
        self.state = State::Inside(n);
        self.region.clear();
        let channel = match self.spec.fields[n].target {
            Target::Content => Channel::Content,
            Target::Thinking => Channel::Reasoning,
            Target::Calls | Target::Other => return,
        };
        self.out.switch(channel);
        if std::mem::replace(&mut self.used[n], true) {
            self.out.join(&self.spec.fields[n].join);
        }
    }

    fn text(&mut self, field: Option<usize>, text: &str) {
        let target = field.or(self.spec.sink).map_or(Target::Content, |n| self.spec.fields[n].target);
        match target {
            Target::Content | Target::Thinking => self.out.text(text),
            // A region that is too long is given up when it closes.
            Target::Calls | Target::Other => keep(&mut self.region, text, MAX_HELD + 1),
        }
    }

    /// A region ends.
    fn close(&mut self, n: usize) {
        let text = std::mem::take(&mut self.region);
        let field: &Field = &self.spec.fields[n];
        if matches!(field.target, Target::Calls | Target::Other) {
            let tool = self.captures.get("name").map(String::as_str);
            let value = Some(&text).filter(|t| t.len() <= MAX_HELD);
            let value = value.and_then(|t| content::parse(field, t, tool, &self.tools));
            match field.target {
                Target::Other => {
                    if let Some(value) = value {
                        self.out.other(&field.name, value);
                    }
                }
                _ => match value.and_then(|v| content::calls(field, &v, &self.captures)) {
                    None => self.out.malformed(&text),
                    Some(calls) => {
                        for (name, arguments, id) in calls {
                            self.out.start(&name, id);
                            self.out.args(&arguments);
                            self.out.end();
                        }
                    }
                },
            }
        }
        self.captures.clear();
        self.outside();
    }
}

/// Whether `rest`, which begins with the edge's literal, begins with the edge; what its groups captured.
fn edge(edge: &Edge, rest: &str, last: bool, captures: &mut BTreeMap<String, String>) -> Found {
    let (literal, pattern) = match edge {
        Edge::Literal(text) => return Found::Yes(text.len()),
        Edge::Pattern(literal, pattern) => (literal, pattern),
    };
    let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
    for end in ends.skip_while(|end| *end < literal.len()).take_while(|end| *end <= MAX_EDGE) {
        if let Some(groups) = pattern.captures(&rest[..end]) {
            for name in pattern.capture_names().flatten() {
                captures.extend(groups.name(name).map(|m| (name.to_owned(), m.as_str().to_owned())));
            }
            return Found::Yes(end);
        }
    }
    if last || rest.len() > MAX_EDGE { Found::No } else { Found::Perhaps }
}

impl Machine for TemplateMachine {
    fn push(&mut self, text: &str) -> Step {
        let mut input = std::mem::take(&mut self.held);
        input.push_str(text);
        let read = self.drive(&input, false);
        self.held = input.split_off(read);
        self.out.step()
    }

    fn held(&self) -> usize {
        self.held.len()
    }

    fn finish(&mut self, cause: &StopCause) -> Tail {
        let stopped = cause.is_stop();
        let input = std::mem::take(&mut self.held);
        if stopped {
            self.drive(&input, true);
            // A region that only the end closes.
            if let State::Inside(n) = self.state {
                self.close(n);
            }
        }
        self.out.tail(cause)
    }
}
