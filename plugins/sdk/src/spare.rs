//! The buffers of answers that nobody holds any more: a token makes one event, and its successor finds the buffers here.
//!
//! One set for all parsers of a thread, so that it stays in the cache however many there are.

use std::cell::Cell;

use crate::event::Event;

/// Largest buffers that are kept.
const MAX_TEXT: usize = 1024;
const MAX_EVENTS: usize = 16;

thread_local! {
    static EVENTS: Cell<Vec<Event>> = const { Cell::new(Vec::new()) };
    static TEXT: Cell<String> = const { Cell::new(String::new()) };
}

/// Whether anyone gives buffers back: whoever links the SDK keeps its events, and has a faster allocator.
const USED: bool = cfg!(any(test, target_arch = "wasm32"));

/// An empty list of events.
pub(crate) fn events() -> Vec<Event> {
    if USED { EVENTS.take() } else { Vec::new() }
}

/// An empty text.
pub(crate) fn text() -> String {
    if USED { TEXT.take() } else { String::new() }
}

/// Takes back the events of an answer that has been read.
#[cfg_attr(not(any(test, target_arch = "wasm32")), allow(dead_code, reason = "see USED"))]
pub(crate) fn give(mut events: Vec<Event>) {
    if let [Event::Content(text) | Event::Reasoning(text) | Event::ToolArgs { delta: text, .. }] = &mut events[..]
        && text.capacity() <= MAX_TEXT
    {
        let mut text = std::mem::take(text);
        text.clear();
        TEXT.set(text);
    }
    if events.capacity() <= MAX_EVENTS {
        events.clear();
        EVENTS.set(events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_empty_and_given_once() {
        give(vec![Event::ToolArgs { index: 7, delta: "old text".to_owned() }]);
        let (again, kept) = (text(), events());
        assert!(again.is_empty() && again.capacity() >= 8 && kept.is_empty() && kept.capacity() >= 1);
        assert_eq!((text().capacity(), events().capacity()), (0, 0));
        give(vec![Event::Content("x".repeat(MAX_TEXT + 1))]);
        assert_eq!(text().capacity(), 0);
    }
}
