//! The parsers of an instance, by number. The instance is single-threaded, and no parser calls another.

use std::cell::RefCell;

use crate::event::Event;
use crate::stream::Machine;

/// A parser.
#[derive(Debug)]
pub(super) struct Parser {
    pub(super) machine: Box<dyn Machine>,
    /// Events of the last brief push that did not fit into its answer.
    pub(super) left: Vec<Event>,
}

struct Parsers {
    all: Vec<Option<Parser>>,
    /// Numbers to give out again.
    free: Vec<u32>,
}

thread_local! {
    static PARSERS: RefCell<Parsers> = const { RefCell::new(Parsers { all: Vec::new(), free: Vec::new() }) };
}

/// Takes a parser in and gives it a number.
pub(super) fn add(machine: Box<dyn Machine>) -> u32 {
    let parser = Some(Parser { machine, left: Vec::new() });
    PARSERS.with_borrow_mut(|parsers| match parsers.free.pop() {
        Some(number) => {
            parsers.all[number as usize] = parser;
            number
        }
        None => {
            parsers.all.push(parser);
            (parsers.all.len() - 1) as u32
        }
    })
}

/// Asks a parser; `none` if the number is nobody's.
pub(super) fn with<R>(number: u32, ask: impl FnOnce(&mut Parser) -> R, none: R) -> R {
    PARSERS.with_borrow_mut(|parsers| match parsers.all.get_mut(number as usize) {
        Some(Some(parser)) => ask(parser),
        _ => none,
    })
}

/// Takes a parser out, the first time that it is called for it.
pub(super) fn remove(number: u32) -> Option<Box<dyn Machine>> {
    PARSERS.with_borrow_mut(|parsers| {
        let parser = parsers.all.get_mut(number as usize)?.take()?;
        parsers.free.push(number);
        Some(parser.machine)
    })
}
