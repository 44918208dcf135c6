//! Pushes in registers: a token's text comes as machine words, and what it came to goes back as one.

use super::exports::sluicegate::format::{brief, parse, types as t};
use super::{Component, Entry, Stream, event, parsers};
use crate::event::{Channel, Event, Step};

/// Bytes that the words of a push hold.
const BYTES: usize = 64;
/// Bytes of text that fit into an answer.
const SHORT: usize = 7;

// Answers, see `wit/format.wit`.
const HOLD: u64 = 0;
const SAME: u64 = 1;
const TEXT: u64 = 4;
const LEFT: u64 = 7;
const CONTENT: u64 = 0;
const REASONING: u64 = 1;
const ARGUMENTS: u64 = 2;

impl<E: Entry> brief::Guest for Component<E> {
    fn number(parser: parse::ParserBorrow<'_>) -> u32 {
        parser.get::<Stream<E>>().number
    }

    fn push(number: u32, length: u32, w0: u64, w1: u64, w2: u64, w3: u64, w4: u64, w5: u64, w6: u64, w7: u64) -> u64 {
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip([w0, w1, w2, w3, w4, w5, w6, w7]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let text = bytes.get(..length as usize).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
        let push = |parser: &mut parsers::Parser| match parser.machine.push(text) {
            Step::Hold => HOLD,
            Step::Pass(Channel::Content) => SAME + CONTENT,
            Step::Pass(Channel::Reasoning) => SAME + REASONING,
            Step::Events(events) => short(&events, text).unwrap_or_else(|| {
                parser.left = events;
                LEFT
            }),
        };
        parsers::with(number, push, HOLD)
    }

    fn take(number: u32) -> Vec<t::Event> {
        let left = parsers::with(number, |parser| std::mem::take(&mut parser.left), Vec::new());
        left.into_iter().map(event).collect()
    }
}

/// The answer that says the same as `events`, if one does.
fn short(events: &[Event], text: &str) -> Option<u64> {
    let (kind, given) = match events {
        [Event::Content(given)] => (CONTENT, given),
        [Event::Reasoning(given)] => (REASONING, given),
        [Event::ToolArgs { delta, .. }] => (ARGUMENTS, delta),
        _ => return None,
    };
    if given == text {
        return Some(SAME + kind);
    }
    if given.is_empty() || given.len() > SHORT {
        return None;
    }
    let mut word = [0; 8];
    word[1..=given.len()].copy_from_slice(given.as_bytes());
    Some(u64::from_le_bytes(word) | (given.len() as u64) << 4 | (TEXT + kind))
}
