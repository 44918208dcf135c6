//! The emitter: the one place that turns what engines find into events and keeps the laws about them.
//!
//! Indices count 0, 1, 2; a name is sent once; argument pieces are only appended; layout whitespace around blocks is
//! dropped; text after tool calls follows one policy; a call that did not end is never closed.

use crate::event::{Channel, Event, FinishReason, Step, StopCause, Tail};
pub use crate::layout::{AfterCalls, Layout, Trim};
use crate::limit::limit;
use crate::prose::Newlines;
use crate::spare;

/// Longest run of layout that is withheld.
const MAX_PENDING: usize = limit(256);
/// Longest run of end-of-turn tokens and layout that is withheld.
const MAX_ENDED: usize = limit(4096);

/// Collects the events of one push.
#[derive(Debug)]
pub struct Emitter {
    events: Vec<Event>,
    layout: Layout,
    after_calls: AfterCalls,
    channel: Channel,
    /// Text that is dropped if a block or the end of reasoning follows, and released otherwise.
    pending: String,
    /// Where in `pending` an end-of-turn token stands: dropped with all behind it if the message ends here.
    pending_end: Option<usize>,
    /// Layout at the start of the current text is still being dropped.
    lead: Trim,
    started: u32,
    ended: u32,
    open: bool,
    /// The call being read has no name: it is none, and its arguments go nowhere.
    nameless: bool,
    noted_after: bool,
    /// Content that is more than white space came behind the last call.
    said: bool,
    /// See [`Emitter::real_newlines`].
    prose: Option<Newlines>,
}

impl Emitter {
    /// An emitter for one message that begins on `channel`.
    pub fn new(layout: Layout, after_calls: AfterCalls, channel: Channel) -> Emitter {
        let lead = if channel == Channel::Reasoning { layout.reasoning } else { Trim::Nothing };
        Emitter {
            events: Vec::new(),
            layout,
            after_calls,
            channel,
            pending: String::new(),
            pending_end: None,
            lead,
            started: 0,
            ended: 0,
            open: false,
            nameless: false,
            noted_after: false,
            said: false,
            prose: None,
        }
    }

    /// Whether text has its line feeds written as a backslash and an `n`; they are made real outside code and formulas.
    pub fn real_newlines(&mut self, literal: bool) {
        self.prose = literal.then(Newlines::default);
    }

    /// The channel that text goes to.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// How many calls have begun.
    pub fn started(&self) -> u32 {
        self.started
    }

    /// The layout that may end the current text.
    fn tail_trim(&self) -> Trim {
        match self.channel {
            // Behind a call, white space alone says nothing: it waits for what follows.
            Channel::Content if self.started > 0 => Trim::Whitespace,
            Channel::Content => self.layout.before_calls,
            Channel::Reasoning => self.layout.reasoning,
        }
    }

    /// If text may go out as it is, because nothing is withheld and nothing waits to go out before it: with which layout it may
    /// not end.
    pub(crate) fn text_passes(&self) -> Option<Trim> {
        let held = !self.pending.is_empty() || self.lead != Trim::Nothing || self.prose.is_some();
        (!held && self.started == 0 && self.events.is_empty()).then(|| self.tail_trim())
    }

    /// The call whose arguments may go out as they are: one is open, and nothing waits to go out before them.
    pub(crate) fn args_pass(&self) -> Option<u32> {
        (self.open && self.events.is_empty()).then(|| self.started.saturating_sub(1))
    }

    /// Text of the current channel.
    pub fn text(&mut self, text: &str) {
        let Some(prose) = self.prose.as_mut() else { return self.lay_out(text) };
        let mut real = String::with_capacity(text.len());
        prose.feed(text, &mut real);
        self.lay_out(&real);
    }

    /// What follows is not the same text: nothing waits for it.
    fn end_text(&mut self) {
        if let Some(prose) = self.prose.as_mut() {
            let mut real = String::new();
            prose.finish(&mut real);
            self.lay_out(&real);
        }
    }

    fn lay_out(&mut self, text: &str) {
        let mut text = text;
        if self.started > 0 && !self.text_after_calls(text) {
            return;
        }
        if self.lead != Trim::Nothing {
            let lead = self.lead;
            if self.pending.is_empty() {
                text = text.trim_start_matches(|c| lead.has(c));
            }
            if !text.is_empty() {
                self.lead = Trim::Nothing;
            }
        }
        if text.is_empty() {
            return;
        }
        if self.is_silent() {
            let body = text.trim_start();
            self.pending.push_str(&text[..text.len() - body.len()]);
            self.overflow();
            text = body;
        }
        let trim = self.tail_trim();
        let body = text.trim_end_matches(|c| trim.has(c));
        if !body.is_empty() {
            self.release();
            self.write(body);
        }
        self.pending.push_str(&text[body.len()..]);
        self.overflow();
    }

    /// Writes what is withheld beyond the longest run of layout.
    fn overflow(&mut self) {
        if self.pending.len() > MAX_ENDED {
            // The message goes on: this was text.
            self.pending_end = None;
        }
        if self.pending.len() > MAX_PENDING && self.pending_end.is_none() {
            let mut cut = self.pending.len() - MAX_PENDING;
            while !self.pending.is_char_boundary(cut) {
                cut += 1;
            }
            let silent = self.is_silent() && self.pending.trim().is_empty();
            let over: String = self.pending.drain(..cut).collect();
            if !silent {
                self.write(&over);
            }
        }
    }

    /// Whether nothing has been said behind a call. White space alone never goes out there, however long it is.
    fn is_silent(&self) -> bool {
        self.started > 0 && !self.said && self.channel == Channel::Content
    }

    /// The policy for text after calls; true if the text goes on as content.
    fn text_after_calls(&mut self, text: &str) -> bool {
        if self.after_calls == AfterCalls::Content || self.channel == Channel::Reasoning {
            return true;
        }
        if !self.noted_after && !text.trim().is_empty() {
            self.noted_after = true;
            self.note("text after tool calls was dropped");
        }
        false
    }

    /// An end-of-turn token written as text: dropped if nothing follows, text otherwise.
    pub fn end_token(&mut self, literal: &str) {
        self.end_text();
        if self.started > 0 && self.after_calls == AfterCalls::Drop {
            return;
        }
        // If text does follow, this was text too, and what stands behind it is not at the start.
        self.lead = Trim::Nothing;
        self.pending_end.get_or_insert(self.pending.len());
        self.pending.push_str(literal);
        self.overflow();
    }

    /// A frame around text: layout on both sides of it is dropped.
    pub fn frame(&mut self) {
        self.end_text();
        self.discard_pending();
        self.lead = self.layout.after_reasoning;
    }

    fn release(&mut self) {
        self.pending_end = None;
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.write(&pending);
        }
    }

    /// Drops layout that is withheld: something that may be markup follows it.
    pub fn discard_pending(&mut self) {
        self.pending.clear();
        self.pending_end = None;
    }

    fn write(&mut self, text: &str) {
        if self.is_silent() {
            self.said = !text.trim().is_empty();
        }
        match (self.channel, self.events.last_mut()) {
            (Channel::Content, Some(Event::Content(last))) | (Channel::Reasoning, Some(Event::Reasoning(last))) => {
                last.push_str(text);
            }
            (channel, _) => {
                let mut all = spare::text();
                all.push_str(text);
                self.add(if channel == Channel::Content { Event::Content(all) } else { Event::Reasoning(all) });
            }
        }
    }

    fn add(&mut self, event: Event) {
        if self.events.capacity() == 0 {
            self.events = spare::events();
        }
        self.events.push(event);
    }

    /// Following text goes to `channel`; layout at the border is dropped.
    pub fn switch(&mut self, channel: Channel) {
        self.end_text();
        self.lead = match (self.channel, channel) {
            (_, Channel::Reasoning) => self.layout.reasoning,
            (Channel::Reasoning, Channel::Content) => self.layout.after_reasoning,
            (Channel::Content, Channel::Content) => self.lead,
        };
        self.discard_pending();
        self.channel = channel;
    }

    /// Text of the same channel follows in another message: `joint` stands between, if text does follow.
    pub fn join(&mut self, joint: &str) {
        self.pending.push_str(joint);
    }

    /// A block of calls certainly begins here: reasoning is over and layout before the block is dropped.
    pub fn enter_calls(&mut self) {
        self.end_text();
        self.discard_pending();
        if self.channel == Channel::Reasoning {
            self.channel = Channel::Content;
        }
        self.lead = if self.after_calls == AfterCalls::Content { Trim::Whitespace } else { Trim::Nothing };
    }

    /// Behind a block of calls, reasoning goes on.
    pub fn resume_reasoning(&mut self) {
        self.switch(Channel::Reasoning);
        self.lead = Trim::Nothing;
    }

    /// A call begins. Without a name nobody could answer it: it is malformed, and what follows of it is dropped.
    pub fn start(&mut self, name: &str, id: Option<String>) {
        self.enter_calls();
        self.abandon("");
        if name.trim().is_empty() {
            self.malformed(name);
            self.nameless = true;
            return;
        }
        self.said = false;
        self.events.push(Event::ToolStart { index: self.started, id, name: name.to_owned() });
        self.started += 1;
        self.open = true;
    }

    /// The next piece of the open call's arguments.
    pub fn args(&mut self, piece: &str) {
        debug_assert!(self.open || self.nameless, "arguments outside a call");
        if !piece.is_empty() {
            self.args_with(|out| out.push_str(piece));
        }
    }

    /// Lets `write` append to the open call's arguments without an extra copy.
    pub fn args_with<R>(&mut self, write: impl FnOnce(&mut String) -> R) -> R {
        if self.nameless {
            return write(&mut String::new());
        }
        let index = self.started.saturating_sub(1);
        if let Some(Event::ToolArgs { index: at, delta }) = self.events.last_mut()
            && *at == index
        {
            return write(delta);
        }
        let mut delta = spare::text();
        let result = write(&mut delta);
        if !delta.is_empty() {
            self.add(Event::ToolArgs { index, delta });
        }
        result
    }

    /// The open call is complete; its argument pieces joined are one JSON object.
    pub fn end(&mut self) {
        self.nameless = false;
        if self.open {
            self.events.push(Event::ToolEnd(self.started - 1));
            self.open = false;
            self.ended += 1;
        }
    }

    /// The open call will never be complete. `raw` is what the model wrote, as far as it was kept.
    pub fn abandon(&mut self, raw: &str) {
        self.nameless = false;
        if self.open {
            self.open = false;
            self.events.push(Event::Malformed(raw.to_owned()));
        }
    }

    /// Markup that never became a call.
    pub fn malformed(&mut self, raw: &str) {
        self.nameless = false;
        self.open = false;
        self.events.push(Event::Malformed(raw.to_owned()));
    }

    /// The format says that the turn is over.
    pub fn end_turn(&mut self) {
        if self.events.last() != Some(&Event::EndTurn) {
            self.events.push(Event::EndTurn);
        }
    }

    /// For operators.
    pub fn note(&mut self, text: &str) {
        self.events.push(Event::Note(text.to_owned()));
    }

    /// An event outside the common set; `data` is JSON.
    pub fn other(&mut self, kind: &str, data: String) {
        self.events.push(Event::Other { kind: kind.to_owned(), data });
    }

    /// What this push came to.
    pub fn step(&mut self) -> Step {
        if self.events.is_empty() { Step::Hold } else { Step::Events(std::mem::take(&mut self.events)) }
    }

    /// The end of the message: withheld text goes out, an open call stays unfinished.
    pub fn tail(&mut self, cause: &StopCause) -> Tail {
        self.end_text();
        if let Some(at) = self.pending_end {
            self.pending.truncate(at);
        }
        if self.started == 0 || self.after_calls == AfterCalls::Content && !self.pending.trim().is_empty() {
            self.release();
        }
        if cause.is_stop() {
            self.abandon("");
        }
        let finish = match cause {
            StopCause::Length => Some(FinishReason::Length),
            StopCause::Aborted => None,
            _ if self.ended > 0 => Some(FinishReason::ToolCalls),
            _ => Some(FinishReason::Stop),
        };
        Tail { events: std::mem::take(&mut self.events), finish }
    }
}
