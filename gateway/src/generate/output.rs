//! From parser events to what the client gets: policies, stop strings, token counts, log probabilities.

use std::collections::VecDeque;
use std::sync::Arc;

use super::assemble::Assembler;
use super::logprobs::Pending;
use crate::chat::{Event, Usage};
use crate::plugins::{self, StopCause, Tail};
use crate::route::{Policy, Show};
use crate::text::{StopScanner, StopStrings};

/// What all choices of a request share.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) request_id: Arc<str>,
    pub(super) model: String,
    /// The request's stop strings, for visible content.
    pub(super) stop: StopStrings,
    /// The format's stop strings, for the raw text.
    pub(super) raw_stop: StopStrings,
    pub(super) tools: Vec<String>,
    pub(super) calls_allowed: bool,
    pub(super) policy: Policy,
    pub(super) logprobs: bool,
    pub(super) prompt_tokens: u32,
}

/// Where the text of the last event went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Content,
    Reasoning,
    Tool,
}

/// The visible side of one choice.
#[derive(Debug)]
pub(super) struct Output {
    rules: Arc<Rules>,
    assembler: Assembler,
    assembled: Vec<Event>,
    ready: VecDeque<Event>,
    stop: StopScanner,
    stopped: bool,
    pub(super) logprobs: Pending,
    channel: Channel,
    /// Tokens whose text has not come out, so that their channel is unknown.
    unplaced: u32,
    tokens: u32,
    reasoning_tokens: u32,
    /// Prompt tokens from a prefix cache, as far as the upstream has said.
    pub(super) cached_tokens: u32,
    /// For each call of the parser: its index for the client, none if it is hidden.
    calls: Vec<Option<u32>>,
    shown: u32,
}

impl Output {
    pub(super) fn new(rules: &Arc<Rules>, choice: u32) -> Self {
        Self {
            rules: Arc::clone(rules),
            assembler: Assembler::new(&rules.request_id, choice, rules.policy.malformed),
            assembled: Vec::new(),
            ready: VecDeque::new(),
            stop: rules.stop.scanner(),
            stopped: false,
            logprobs: Pending::default(),
            channel: Channel::Content,
            unplaced: 0,
            tokens: 0,
            reasoning_tokens: 0,
            cached_tokens: 0,
            calls: Vec::new(),
            shown: 0,
        }
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    /// Whether a stop string or the format ended the turn.
    pub(super) fn is_over(&self) -> bool {
        self.stopped || self.assembler.ended()
    }

    /// Counts tokens that were generated.
    pub(super) fn count(&mut self, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens);
        self.unplaced = self.unplaced.saturating_add(tokens);
    }

    /// Takes what the parser said about the tokens counted since the last call.
    pub(super) fn events(&mut self, events: impl IntoIterator<Item = plugins::Event>) {
        for event in events {
            let Some(event) = self.admit(event) else { continue };
            let mut assembled = std::mem::take(&mut self.assembled);
            self.assembler.take(event, &mut assembled);
            assembled.drain(..).for_each(|event| self.show(event));
            self.assembled = assembled;
        }
    }

    /// Applies the policy on tools that the request does not offer, and numbers the calls that are left.
    fn admit(&mut self, event: plugins::Event) -> Option<plugins::Event> {
        use plugins::Event as Parsed;

        let shown = |index: u32| self.calls.get(index as usize).copied().flatten();
        Some(match event {
            Parsed::ToolStart { id, name, .. } => {
                let offered = self.rules.calls_allowed && self.rules.tools.contains(&name);
                if !offered {
                    let (request, model) = (&*self.rules.request_id, self.rules.model.as_str());
                    tracing::warn!(
                        request,
                        model,
                        tool = name,
                        "the model calls a tool that the request does not offer"
                    );
                }
                if !offered && self.rules.policy.undeclared_tools == Show::Hide {
                    self.calls.push(None);
                    self.place(Channel::Tool);
                    return None;
                }
                let index = self.shown;
                self.shown += 1;
                self.calls.push(Some(index));
                Parsed::ToolStart { index, id, name }
            }
            Parsed::ToolArgs { index, delta } => Parsed::ToolArgs { index: shown(index)?, delta },
            Parsed::ToolEnd { index } => Parsed::ToolEnd { index: shown(index)? },
            Parsed::ToolBroken { index, reason } => Parsed::ToolBroken { index: shown(index)?, reason },
            other => other,
        })
    }

    fn show(&mut self, event: Event) {
        if self.stopped {
            return;
        }
        match event {
            Event::Content(text) => self.content(&text),
            Event::Reasoning(_) => {
                self.place(Channel::Reasoning);
                self.append(event);
            }
            Event::ToolStart { .. } | Event::ToolArgs { .. } => {
                self.place(Channel::Tool);
                self.append(event);
            }
            Event::Logprobs(_) | Event::Finish { .. } => self.append(event),
        }
    }

    fn content(&mut self, text: &str) {
        self.place(Channel::Content);
        if let Some(logprobs) = self.logprobs.take() {
            self.ready.push_back(Event::Logprobs(logprobs));
        }
        let mut visible = String::with_capacity(text.len());
        self.stopped = self.stop.push(text, &mut visible).is_some();
        self.append(Event::Content(visible));
    }

    /// Puts the tokens counted so far into a channel. A stop string cannot span channels, so what was held back for one comes
    /// out when the channel changes.
    fn place(&mut self, channel: Channel) {
        if channel == Channel::Reasoning {
            self.reasoning_tokens += self.unplaced;
        }
        self.unplaced = 0;
        self.channel = channel;
        if channel != Channel::Content {
            self.logprobs.clear();
            self.flush();
        }
    }

    /// Releases what is held for a stop string; a stop string that was found holds nothing.
    fn flush(&mut self) {
        let mut held = String::new();
        self.stop.flush(&mut held);
        self.append(Event::Content(held));
    }

    /// Adds an event, joining it to the last one where that changes nothing for the client.
    fn append(&mut self, event: Event) {
        match (self.ready.back_mut(), event) {
            (_, Event::Content(text) | Event::Reasoning(text) | Event::ToolArgs { delta: text, .. })
                if text.is_empty() => {}
            (Some(Event::Content(last)), Event::Content(text))
            | (Some(Event::Reasoning(last)), Event::Reasoning(text)) => {
                last.push_str(&text);
            }
            (Some(Event::ToolArgs { index: last, delta }), Event::ToolArgs { index, delta: more })
                if *last == index =>
            {
                delta.push_str(&more);
            }
            (_, event) => self.ready.push_back(event),
        }
    }

    /// The stream ends with an error: what was held for a stop string is ordinary text after all.
    pub(super) fn abandon(&mut self) {
        self.flush();
    }

    /// The last events. `upstream` has the upstream's counts; without them (the turn was ended here) our own are used.
    pub(super) fn finish(&mut self, cause: &StopCause, tail: Tail, upstream: Option<Usage>) {
        let finish = tail.finish;
        self.events(tail.events);
        self.flush();
        if self.channel == Channel::Reasoning {
            self.reasoning_tokens += self.unplaced;
        }
        // A stop string in the last text ends the turn before the upstream's own reason can.
        let cause = if self.stopped { &StopCause::Eos(None) } else { cause };
        let tail = Tail { events: Vec::new(), finish };
        let reason = self.assembler.finish(tail, cause, &mut self.assembled);
        let mut usage = upstream.unwrap_or(Usage { cached_tokens: self.cached_tokens, ..Usage::default() });
        if usage.prompt_tokens == 0 {
            usage.prompt_tokens = self.rules.prompt_tokens;
        }
        usage.completion_tokens = usage.completion_tokens.max(self.tokens);
        usage.reasoning_tokens = self.reasoning_tokens.min(usage.completion_tokens);
        self.ready.push_back(Event::Finish { reason, usage });
    }
}
