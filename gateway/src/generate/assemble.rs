//! Turns a format plugin's events into those of the API: ids, held whitespace, and why the message ended.

use std::collections::HashSet;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::chat::{self, FinishReason};
use crate::plugins::{Event, StopCause, Tail};

/// What the client sees of a call that turned out malformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Malformed {
    /// Nothing; operators see a log line.
    #[default]
    Drop,
    /// Its raw text, as content.
    Content,
}

/// Assembles one choice.
#[derive(Debug)]
pub struct Assembler {
    seed: String,
    malformed: Malformed,
    ids: HashSet<String>,
    started: u32,
    finished: u32,
    /// Whitespace after a call, kept until text follows: models write newlines between calls.
    blank: String,
    ended: bool,
}

impl Assembler {
    /// An assembler for this choice of this request. The ids of calls are made from both, so that they are unique and
    /// a replay of the request repeats them.
    #[must_use]
    pub fn new(request: &str, choice: u32, malformed: Malformed) -> Self {
        Self {
            seed: format!("{request}/{choice}"),
            malformed,
            ids: HashSet::new(),
            started: 0,
            finished: 0,
            blank: String::new(),
            ended: false,
        }
    }

    /// Takes one event and gives what the client sees of it.
    pub fn take(&mut self, event: Event, out: &mut impl Extend<chat::Event>) {
        if self.ended {
            return;
        }
        let event = match event {
            Event::Content(text) => self.content(text),
            Event::Reasoning(text) => (!text.is_empty()).then_some(chat::Event::Reasoning(text)),
            Event::ToolStart { index, id, name } => {
                self.started += 1;
                self.blank.clear();
                Some(chat::Event::ToolStart { index, id: self.call_id(index, id), name })
            }
            Event::ToolArgs { index, delta } => (!delta.is_empty()).then_some(chat::Event::ToolArgs { index, delta }),
            Event::ToolEnd { .. } => {
                self.finished += 1;
                None
            }
            Event::ToolBroken { index, reason } => {
                tracing::warn!(request = self.seed, call = index, reason, "a tool call has broken arguments");
                None
            }
            Event::Malformed(text) => {
                tracing::warn!(request = self.seed, bytes = text.len(), "the model wrote a malformed tool call");
                if self.malformed == Malformed::Content { self.content(text) } else { None }
            }
            Event::EndTurn => {
                self.ended = true;
                None
            }
            Event::Note(text) => {
                tracing::info!(request = self.seed, note = text, "format plugin");
                None
            }
            Event::Other { kind, .. } => {
                tracing::debug!(request = self.seed, kind, "unknown event of a format plugin");
                None
            }
        };
        out.extend(event);
    }

    /// Whether the format says that the turn is over: the engine should be stopped. Nothing more is passed on.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Takes the end of the stream and says why the message ended.
    pub fn finish(&mut self, tail: Tail, cause: &StopCause, out: &mut impl Extend<chat::Event>) -> FinishReason {
        for event in tail.events {
            self.take(event, out);
        }
        match (cause, tail.finish) {
            (StopCause::Length, _) if !self.ended => FinishReason::Length,
            (_, Some(FinishReason::ContentFilter)) => FinishReason::ContentFilter,
            (_, Some(FinishReason::Length)) => FinishReason::Length,
            _ if self.finished > 0 => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        }
    }

    fn content(&mut self, text: String) -> Option<chat::Event> {
        if self.started == 0 {
            return (!text.is_empty()).then_some(chat::Event::Content(text));
        }
        if text.trim().is_empty() {
            self.blank.push_str(&text);
            return None;
        }
        let mut held = std::mem::take(&mut self.blank);
        held.push_str(&text);
        Some(chat::Event::Content(held))
    }

    /// The model's own id if it is new in this message, else one of ours.
    fn call_id(&mut self, index: u32, given: Option<String>) -> String {
        if let Some(id) = given
            && !id.is_empty()
            && self.ids.insert(id.clone())
        {
            return id;
        }
        let hash = Sha256::digest(format!("{}/{index}", self.seed));
        let hex: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        let id = format!("call_{hex}");
        self.ids.insert(id.clone());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(index: u32, id: Option<&str>) -> Event {
        Event::ToolStart { index, id: id.map(str::to_owned), name: "f".to_owned() }
    }

    fn run(events: Vec<Event>, cause: &StopCause) -> (Vec<chat::Event>, FinishReason) {
        let mut assembler = Assembler::new("req", 0, Malformed::Drop);
        let mut out = Vec::new();
        for event in events {
            assembler.take(event, &mut out);
        }
        let reason = assembler.finish(Tail::default(), cause, &mut out);
        (out, reason)
    }

    #[test]
    fn whitespace_after_a_call_waits_for_text_and_never_comes_alone() {
        let text = |text: &str| Event::Content(text.to_owned());
        let events = vec![text(" \n"), start(0, None), Event::ToolEnd { index: 0 }, text("\n"), text(" "), text("x")];
        let (out, reason) = run(events, &StopCause::Eos(None));
        let contents: Vec<_> = out.iter().filter(|e| matches!(e, chat::Event::Content(_))).collect();
        let content = |text: &str| chat::Event::Content(text.to_owned());
        assert_eq!(contents, [&content(" \n"), &content("\n x")]);
        assert_eq!(reason, FinishReason::ToolCalls);
    }

    #[test]
    fn ids_are_the_models_when_new_and_minted_otherwise() {
        let events = vec![start(0, Some("a")), start(1, Some("a")), start(2, None)];
        let (out, _) = run(events, &StopCause::Eos(None));
        let ids: Vec<_> = out
            .iter()
            .filter_map(|event| match event {
                chat::Event::ToolStart { id, .. } => Some(id.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(ids[0], "a");
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 3);
        assert!(ids[1..].iter().all(|id| id.starts_with("call_") && id.len() == 29));
    }

    #[test]
    fn a_limit_and_a_broken_call_are_never_reported_as_tool_calls() {
        let done = vec![start(0, None), Event::ToolEnd { index: 0 }];
        assert_eq!(run(done, &StopCause::Length).1, FinishReason::Length);
        let broken = vec![start(0, None), Event::ToolBroken { index: 0, reason: String::new() }];
        assert_eq!(run(broken, &StopCause::Eos(None)).1, FinishReason::Stop);
    }

    #[test]
    fn nothing_passes_after_the_end_of_the_turn() {
        let events = vec![Event::EndTurn, Event::Content("<|im_start|>user".to_owned())];
        assert_eq!(run(events, &StopCause::Eos(None)), (Vec::new(), FinishReason::Stop));
    }
}
