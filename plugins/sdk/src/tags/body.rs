//! Bodies that are not plain values: JSON, CDATA sections, trees of elements.

use super::reader::{Cdata, Move, State, TagReader};
use super::tree::Grown;
use crate::emit::Emitter;
use crate::json::Fed;
use crate::syntax::Request;

const CDATA_OPEN: &str = "<![CDATA[";
const CDATA_CLOSE: &str = "]]>";

impl TagReader {
    pub(super) fn tree(&mut self, rest: &str, request: &Request, out: &mut Emitter) -> Move {
        let State::Tree(tree) = &mut self.state else { return Move::Go(0) };
        let read = match tree.feed(rest) {
            Grown::More(n) => return Move::Wait(n),
            Grown::Done(n) => n,
            Grown::Bad(n) => {
                self.fail();
                return Move::Go(n);
            }
        };
        let State::Tree(tree) = std::mem::replace(&mut self.state, State::Body) else { return Move::Go(read) };
        if let Some(call) = self.call.as_mut() {
            let key = call.keys.last().cloned().unwrap_or_default();
            if !call.json && call.keys.iter().filter(|k| **k == key).count() == 1 {
                let schema = request.tools.get(&call.name).map_or("", |t| t.schema.as_str());
                let head = call.head(&key);
                out.args(&(head + &tree.json(schema)));
            }
        }
        Move::Go(read)
    }

    pub(super) fn json(&mut self, rest: &str, out: &mut Emitter) -> Move {
        let State::Json(checker) = &mut self.state else { return Move::Go(0) };
        let fed = out.args_with(|args| {
            let fed = checker.feed(rest, args);
            if matches!(fed, Fed::Done(_)) {
                // The closing brace waits for the end of the call.
                args.pop();
            }
            fed
        });
        match fed {
            Fed::More => Move::Go(rest.len()),
            Fed::Done(n) => {
                if let Some(call) = self.call.as_mut() {
                    call.opened = true;
                    call.json = true;
                }
                self.state = State::Body;
                Move::Go(n)
            }
            Fed::Bad(n) => {
                self.fail();
                Move::Go(n)
            }
        }
    }

    /// A CDATA section at the beginning of a value: what is in it is data, whatever it looks like.
    pub(super) fn in_cdata(&mut self, rest: &str, out: &mut Emitter) -> Move {
        if self.cdata == Cdata::Maybe {
            if rest.len() < CDATA_OPEN.len() && CDATA_OPEN.starts_with(rest) {
                return Move::Wait(0);
            }
            let opens = rest.starts_with(CDATA_OPEN);
            self.cdata = if opens { Cdata::In } else { Cdata::No };
            return Move::Go(if opens { CDATA_OPEN.len() } else { 0 });
        }
        let (text, then) = match rest.find(CDATA_CLOSE) {
            Some(at) => {
                self.cdata = Cdata::No;
                (&rest[..at], Move::Go(at + CDATA_CLOSE.len()))
            }
            None => {
                // Two brackets at the end may be the closer's.
                let held = rest.len() - rest.trim_end_matches(']').len();
                let text = &rest[..rest.len() - held.min(2)];
                (text, Move::Wait(text.len()))
            }
        };
        if let State::Value(value) = &mut self.state {
            value.feed(text, out);
        }
        then
    }
}
