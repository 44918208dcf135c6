//! Looking past a tag: what an element encloses, and whether a closer is one.

use std::borrow::Cow;

use super::lexer::{Lex, Role};
use super::{CLOSE, Shared};
use crate::limit::limit;
use crate::scan::Hit;

/// Longest run of layout that is looked past to tell whether a closer is one.
const MAX_LAYOUT: usize = limit(1024);

/// The text of an element without attributes.
pub(super) enum Enclosed<'a> {
    Partial,
    /// The text, and how many bytes it takes with its closer.
    Text(&'a str, usize),
    /// Something else begins after that many bytes.
    Not(usize),
}

impl Shared {
    /// A name or key as an attribute writes it.
    pub(super) fn written_name<'a>(&self, name: Option<&'a str>) -> Cow<'a, str> {
        let name = name.unwrap_or_default();
        match self.spec.entities && name.contains('&') {
            true => Cow::Owned(name.replace("&quot;", "\"").replace("&amp;", "&")),
            false => Cow::Borrowed(name),
        }
    }

    /// Reads text up to the closer of `role`.
    pub(super) fn enclosed<'a>(&self, rest: &'a str, role: Role, last: bool) -> Enclosed<'a> {
        match self.tags.find(rest, last) {
            Hit::Text | Hit::Partial { .. } => Enclosed::Partial,
            Hit::Marker { at, .. } => match self.lexer.lex(&rest[at..], last) {
                Lex::Partial => Enclosed::Partial,
                Lex::Tag(tag) if tag.role == role && tag.closing => Enclosed::Text(rest[..at].trim(), at + tag.len),
                _ => Enclosed::Not(at),
            },
        }
    }

    /// Whether the closer that `rest` may begin with ends a value: the bytes of the value's closer, `usize::MAX` for
    /// the call's, 0 for data. `None` if more text must tell.
    ///
    /// `in_text`: a JSON string is open in the value. What it can hold is its text then; a line feed or a quote, as the
    /// format's layout and attributes have them, it cannot: there the model forgot to end the string.
    pub(super) fn closes(&self, rest: &str, last: bool, in_text: bool) -> Option<usize> {
        let tag = match self.lexer.lex(rest, last) {
            Lex::Partial => return None,
            Lex::Tag(tag) if tag.closing => tag,
            _ => return Some(0),
        };
        let own = match tag.role {
            Role::Param | Role::Value => true,
            Role::Call => false,
            _ => return Some(0),
        };
        let yes = Some(if own { tag.len } else { usize::MAX });
        let after = &rest[tag.len..];
        let body = after.trim_start();
        if after.len() - body.len() > MAX_LAYOUT || (last && body.is_empty()) {
            return yes;
        }
        if body.is_empty() {
            return None;
        }
        match self.tags.find_here(body, last) {
            Hit::Partial { .. } => return None,
            Hit::Marker { id: CLOSE, len, .. } => {
                return if in_text && is_text(after, body, len) { Some(0) } else { yes };
            }
            Hit::Marker { .. } => {}
            Hit::Text => return Some(0),
        }
        let next = match self.lexer.lex(body, last) {
            Lex::Partial => return None,
            Lex::Not => return Some(0),
            Lex::Tag(next) => next,
        };
        let follows = match (next.role, next.closing) {
            (Role::Call, false) | (Role::Block | Role::Outer, true) => true,
            (Role::Call, true) | (Role::Param | Role::Key, false) => own,
            _ => false,
        };
        if follows && !(in_text && is_text(after, body, next.len)) { yes } else { Some(0) }
    }
}

/// Whether a JSON string can hold `after` up to the end of the tag that `body`, its last part, begins with.
fn is_text(after: &str, body: &str, tag: usize) -> bool {
    after[..after.len() - body.len() + tag].bytes().all(|byte| byte >= b' ' && byte != b'"')
}
