//! Pushes whose answer is one machine word; the text of a token comes in words, too.

use std::cell::Cell;

use super::exports::sluicegate::format::{answers, brief, parse, terse, types as t};
use super::{Component, Entry, Stream, event, parsers};
use crate::event::{Channel, Event, Step};
use crate::scan::{Begins, begins};
use crate::spare;

/// Bytes that the words of a push hold.
const BYTES: usize = 64;
/// Bytes of text that fit into an answer.
const SHORT: usize = 7;

// Answers, see `wit/format.wit`.
const HOLD: u64 = 0;
const SAME: u64 = 1;
const TEXT: u64 = 4;
const LEFT: u64 = 7;
const ESCAPED: u64 = 8;
const CONTENT: u64 = 0;
const REASONING: u64 = 1;
const ARGUMENTS: u64 = 2;

impl<E: Entry> brief::Guest for Component<E> {
    fn number(parser: parse::ParserBorrow<'_>) -> u32 {
        parser.get::<Stream<E>>().number
    }

    fn push(number: u32, length: u32, w0: u64, w1: u64, w2: u64, w3: u64, w4: u64, w5: u64, w6: u64, w7: u64) -> u64 {
        let words = [w0, w1, w2, w3, w4, w5, w6, w7];
        let step = parsers::with(number, |parser| parser.push_words(&words, length as usize), None);
        if let Some(said) = step.as_ref().and_then(word) {
            return said;
        }
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let length = length as usize;
        // Whole words are checked several bytes at a time; the zeros behind the text are text, too.
        let words = bytes.get(..length.next_multiple_of(8)).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let text = words.and_then(|text| text.get(..length)).unwrap_or_default();
        match step {
            Some(step) => say(number, step, text),
            None => answer(number, text),
        }
    }

    fn take(number: u32) -> Vec<t::Event> {
        parsers::take(number).into_iter().map(event).collect()
    }
}

impl<E: Entry> terse::Guest for Component<E> {
    fn push(number: u32, text: String) -> u64 {
        answer(number, &text)
    }
}

thread_local! {
    /// The host knows the answer `ESCAPED`.
    static MAY_ESCAPE: Cell<bool> = const { Cell::new(false) };
}

impl<E: Entry> answers::Guest for Component<E> {
    fn escaped() {
        MAY_ESCAPE.set(true);
    }
}

/// Pushes `text` to a parser.
fn answer(number: u32, text: &str) -> u64 {
    say(number, parsers::with(number, |parser| parser.push(text), Step::Hold), text)
}

/// Says what the push of `text` came to.
fn say(number: u32, step: Step, text: &str) -> u64 {
    match (word(&step), step) {
        (Some(word), _) => word,
        (None, Step::Events(events)) => tell(number, events, text),
        (None, Step::Args { index, escaped }) => tell(number, vec![Step::args(text, index, escaped)], text),
        (None, Step::Hold | Step::Pass(_)) => HOLD,
    }
}

/// The word for a step, if there is one.
#[inline]
fn word(step: &Step) -> Option<u64> {
    Some(match step {
        Step::Hold => HOLD,
        Step::Pass(Channel::Content) => SAME + CONTENT,
        Step::Pass(Channel::Reasoning) => SAME + REASONING,
        Step::Args { escaped: false, .. } => SAME + ARGUMENTS,
        Step::Args { .. } if MAY_ESCAPE.get() => ESCAPED,
        Step::Args { .. } | Step::Events(_) => return None,
    })
}

/// Says `events` in the answer if that is possible, and leaves them to be taken if not.
fn tell(number: u32, events: Vec<Event>, text: &str) -> u64 {
    match short(&events, text) {
        Some(answer) => {
            spare::give(events);
            answer
        }
        None => {
            parsers::leave(number, events);
            LEFT
        }
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
    if given.len() == text.len() && begins(given.as_bytes(), text.as_bytes()) == Begins::Whole {
        return Some(SAME + kind);
    }
    if given.is_empty() || given.len() > SHORT {
        return None;
    }
    let word = given.bytes().rev().fold(0, |word, byte| word << 8 | u64::from(byte));
    Some(word << 8 | (given.len() as u64) << 4 | (TEXT + kind))
}
