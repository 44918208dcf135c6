//! The parsers of an instance, by number. The instance is single-threaded, and no parser calls another.

use std::cell::RefCell;

use crate::event::Event;
use crate::parser::Parser;

struct Parsers {
    all: Vec<Option<Parser>>,
    /// Numbers to give out again.
    free: Vec<u32>,
    /// Events of brief pushes that did not fit into the answer, by the parser's number.
    left: Vec<(u32, Vec<Event>)>,
}

thread_local! {
    static PARSERS: RefCell<Parsers> =
        const { RefCell::new(Parsers { all: Vec::new(), free: Vec::new(), left: Vec::new() }) };
}

/// Takes a parser in and gives it a number.
pub(super) fn add(parser: Parser) -> u32 {
    PARSERS.with_borrow_mut(|parsers| match parsers.free.pop() {
        Some(number) => {
            parsers.all[number as usize] = Some(parser);
            number
        }
        None => {
            parsers.all.push(Some(parser));
            (parsers.all.len() - 1) as u32
        }
    })
}

/// Asks a parser; `none` if the number is nobody's.
#[inline]
pub(super) fn with<R>(number: u32, ask: impl FnOnce(&mut Parser) -> R, none: R) -> R {
    PARSERS.with_borrow_mut(|parsers| match parsers.all.get_mut(number as usize) {
        Some(Some(parser)) => ask(parser),
        _ => none,
    })
}

/// Takes a parser out, the first time that it is called for it.
pub(super) fn remove(number: u32) -> Option<Parser> {
    PARSERS.with_borrow_mut(|parsers| {
        let parser = parsers.all.get_mut(number as usize)?.take()?;
        parsers.free.push(number);
        parsers.left.retain(|(of, _)| *of != number);
        Some(parser)
    })
}

/// Leaves events of a parser to be taken, in the place of those that were left before.
pub(super) fn leave(number: u32, events: Vec<Event>) {
    PARSERS.with_borrow_mut(|parsers| {
        parsers.left.retain(|(of, _)| *of != number);
        parsers.left.push((number, events));
    });
}

/// What was left of a parser.
pub(super) fn take(number: u32) -> Vec<Event> {
    PARSERS.with_borrow_mut(|parsers| {
        let place = parsers.left.iter().position(|(of, _)| *of == number);
        place.map(|place| parsers.left.swap_remove(place).1).unwrap_or_default()
    })
}
