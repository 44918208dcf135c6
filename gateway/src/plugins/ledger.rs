//! Checks what a plugin answers against its contract, and remembers what was passed on.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use serde::de::IgnoredAny;

use super::arguments::Arguments;
use super::ask::Answer;
use super::bindings::types as wit;
use super::brief::{Brief, Place};
use super::escape::escaped;
use super::event::{Event, Events};

/// Bytes that a plugin may return for each byte it was given. JSON escapes take six, and a malformed call may be
/// returned a second time as raw text.
const MAX_EXPANSION: u64 = 8;
/// Bytes that it may return on top of that.
const FREE_BYTES: u64 = 4096;
/// Events that it may return on top of four for each byte.
const FREE_EVENTS: u64 = 64;
/// Notes of one stream that are passed on.
const MAX_NOTES: u32 = 16;
/// Longest note that is passed on, in bytes.
const MAX_NOTE: usize = 1024;

/// The books of one stream.
#[derive(Default)]
pub(super) struct Ledger {
    pushed: u64,
    returned: u64,
    events: u64,
    notes: u32,
    held: usize,
    next_call: u32,
    /// The call that began last, unless it has ended.
    current: Option<Call>,
    /// Calls that began before it and have not ended.
    earlier: Vec<Call>,
    broken: u64,
    /// Nobody gains by finding two answers with one digest, so it need not be a strong one.
    digest: FxHasher,
}

/// A call that has not ended.
struct Call {
    index: u32,
    arguments: Arguments,
}

impl Ledger {
    /// Books a push of this many bytes.
    #[inline]
    pub(super) fn pushed(&mut self, bytes: usize) {
        self.pushed += bytes as u64;
        self.held += bytes;
    }

    /// Bytes pushed since the plugin last answered anything.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Calls that ended with broken arguments.
    pub(super) fn broken_calls(&self) -> u64 {
        self.broken
    }

    /// A number that is equal for equal answers.
    pub(super) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Takes the answer to a push, checks it, and gives the events to pass on. `Err` names the rule that is broken.
    #[inline]
    pub(super) fn answer(&mut self, answer: Answer, text: &str) -> Result<Events, String> {
        match answer {
            Answer::Step(step) => self.step(step, text),
            Answer::Brief(Brief::Hold) | Answer::Opened | Answer::Tail(_) => Ok(Events::new()),
            Answer::Brief(Brief::Same(place)) => self.text(place, text, Arguments::push),
            Answer::Brief(Brief::Escaped) => self.text(Place::Arguments, &escaped(text), Arguments::push_escaped),
            Answer::Brief(Brief::Text(place, short)) => self.text(place, short.as_str(), Arguments::push),
            Answer::Brief(Brief::Events(given)) => self.events(given),
        }
    }

    /// Takes one text: what nearly every answer is. `check` reads it if it is arguments.
    #[inline]
    fn text(&mut self, place: Place, text: &str, check: fn(&mut Arguments, &str)) -> Result<Events, String> {
        self.book(text.len())?;
        (place as u8, text).hash(&mut self.digest);
        if text.is_empty() {
            return Ok(Events::new());
        }
        let text = || text.to_owned();
        let event = match place {
            Place::Content => Event::Content(text()),
            Place::Reasoning => Event::Reasoning(text()),
            Place::Arguments => {
                let index = self.next_call.saturating_sub(1);
                let delta = text();
                self.arguments(index, &delta, check)?;
                Event::ToolArgs { index, delta }
            }
        };
        Ok(Events::from_buf([event]))
    }

    fn step(&mut self, step: wit::Step, text: &str) -> Result<Events, String> {
        match step {
            wit::Step::Hold => Ok(Events::new()),
            wit::Step::Pass(wit::Channel::Content) => self.text(Place::Content, text, Arguments::push),
            wit::Step::Pass(wit::Channel::Reasoning) => self.text(Place::Reasoning, text, Arguments::push),
            wit::Step::Events(given) => self.events(given),
        }
    }

    /// Takes events, checks them, and gives those to pass on.
    pub(super) fn events(&mut self, given: Vec<wit::Event>) -> Result<Events, String> {
        let mut events = Events::with_capacity(given.len());
        for event in given {
            self.take(event.into(), &mut events)?;
        }
        Ok(events)
    }

    fn take(&mut self, event: Event, events: &mut Events) -> Result<(), String> {
        event.hash(&mut self.digest);
        self.book(event.len())?;
        if let Some(event) = self.check(event)? {
            events.push(event);
        }
        Ok(())
    }

    /// Books an event with so many bytes of text.
    #[inline]
    fn book(&mut self, bytes: usize) -> Result<(), String> {
        self.held = 0;
        self.events += 1;
        self.returned += bytes as u64;
        if self.events > 4 * self.pushed + FREE_EVENTS {
            return Err(format!("{} events for {} bytes of text", self.events, self.pushed));
        }
        if self.returned > MAX_EXPANSION * self.pushed + FREE_BYTES {
            return Err(format!("{} bytes returned for {} bytes of text", self.returned, self.pushed));
        }
        Ok(())
    }

    /// Books a piece of a call's arguments.
    #[inline]
    fn arguments(&mut self, index: u32, delta: &str, check: fn(&mut Arguments, &str)) -> Result<(), String> {
        let mut open = self.current.iter_mut().chain(&mut self.earlier);
        let Some(call) = open.find(|call| call.index == index) else {
            return Err(format!("tool-args for call {index}, which is not open"));
        };
        check(&mut call.arguments, delta);
        Ok(())
    }

    fn close(&mut self, index: u32) -> Option<Call> {
        if let Some(call) = self.current.take_if(|call| call.index == index) {
            return Some(call);
        }
        let place = self.earlier.iter().position(|call| call.index == index)?;
        Some(self.earlier.swap_remove(place))
    }

    fn check(&mut self, event: Event) -> Result<Option<Event>, String> {
        match &event {
            Event::ToolStart { index, name, .. } => {
                if *index != self.next_call {
                    return Err(format!("tool-start with index {index}, {} was due", self.next_call));
                }
                if name.is_empty() {
                    return Err("tool-start without a name".to_owned());
                }
                self.next_call += 1;
                let call = Call { index: *index, arguments: Arguments::default() };
                self.earlier.extend(self.current.replace(call));
            }
            Event::ToolArgs { index, delta } => self.arguments(*index, delta, Arguments::push)?,
            Event::ToolEnd { index } => {
                let Some(call) = self.close(*index) else {
                    return Err(format!("tool-end for call {index}, which is not open"));
                };
                if let Err(reason) = call.arguments.finish() {
                    self.broken += 1;
                    return Ok(Some(Event::ToolBroken { index: *index, reason }));
                }
            }
            Event::Note(text) => {
                self.notes += 1;
                if self.notes > MAX_NOTES {
                    return Ok(None);
                }
                if text.len() > MAX_NOTE {
                    return Ok(Some(Event::Note(text[..text.floor_char_boundary(MAX_NOTE)].to_owned())));
                }
            }
            Event::Other { kind, data } => {
                if serde_json::from_str::<IgnoredAny>(data).is_err() {
                    return Err(format!("the data of {kind:?} is not JSON"));
                }
            }
            Event::Content(text) | Event::Reasoning(text) if text.is_empty() => return Ok(None),
            Event::Content(_)
            | Event::Reasoning(_)
            | Event::ToolBroken { .. }
            | Event::Malformed(_)
            | Event::EndTurn => {}
        }
        Ok(Some(event))
    }
}

impl From<wit::Event> for Event {
    fn from(event: wit::Event) -> Self {
        match event {
            wit::Event::Content(text) => Self::Content(text),
            wit::Event::Reasoning(text) => Self::Reasoning(text),
            wit::Event::ToolStart(start) => Self::ToolStart { index: start.index, id: start.id, name: start.name },
            wit::Event::ToolArgs(args) => Self::ToolArgs { index: args.index, delta: args.delta },
            wit::Event::ToolEnd(index) => Self::ToolEnd { index },
            wit::Event::Malformed(text) => Self::Malformed(text),
            wit::Event::EndTurn => Self::EndTurn,
            wit::Event::Note(text) => Self::Note(text),
            wit::Event::Other(other) => Self::Other { kind: other.kind, data: other.data },
        }
    }
}
