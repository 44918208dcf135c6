//! Parameters as trees of elements: children are keys or `item`s, leaves are text typed by the schema.

use serde_json::Value;

use super::Brackets;
use crate::coerce;
use crate::json;
use crate::limit::limit;
use crate::scan::{Hit, Markers};
use crate::tools::JsonTypes;

/// How deep elements may nest.
const MAX_DEPTH: usize = 128;
/// Longest element name.
const MAX_NAME: usize = limit(256);
/// Longest parameter.
const MAX_HELD: usize = limit(1 << 20);

/// An element that has been read.
#[derive(Debug, Default)]
struct Node {
    name: String,
    text: String,
    children: Vec<Node>,
}

/// What feeding a tree did.
pub(super) enum Grown {
    /// That many bytes are read, more is needed.
    More(usize),
    /// The outermost element closed after that many bytes.
    Done(usize),
    /// Its tags don't match, or it is too long: known after that many bytes.
    Bad(usize),
}

/// One parameter's element being read.
#[derive(Debug)]
pub(super) struct Tree {
    brackets: Brackets,
    tags: Markers,
    stack: Vec<Node>,
    done: Option<Node>,
    size: usize,
}

const OPEN: u16 = 0;
const CLOSE: u16 = 1;

/// The beginning of an element, `<name>`; `None` if it is none, `Some(None)` if more text must tell.
pub(super) fn opening(brackets: Brackets, text: &str) -> Option<Option<(&str, usize)>> {
    let rest = text.strip_prefix(brackets.open)?;
    match rest.find(brackets.end).filter(|at| *at <= MAX_NAME) {
        Some(at) => {
            let name = rest[..at].trim();
            let fine = !name.is_empty() && !name.starts_with('/') && !name.contains(['<', '"', ' ', '\n']);
            fine.then_some(Some((name, brackets.open.len() + at + brackets.end.len())))
        }
        None if rest.len() > MAX_NAME + brackets.end.len() => None,
        None => Some(None),
    }
}

impl Tree {
    pub(super) fn new(brackets: Brackets, name: &str) -> Tree {
        let tags = Markers::new([(brackets.open, OPEN), (brackets.close, CLOSE)]);
        let root = Node { name: name.to_owned(), ..Node::default() };
        Tree { brackets, tags, stack: vec![root], done: None, size: 0 }
    }

    pub(super) fn feed(&mut self, text: &str) -> Grown {
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let (piece, tag) = match self.tags.find(rest, false) {
                Hit::Text => (rest, None),
                Hit::Partial { at } => (&rest[..at], None),
                Hit::Marker { at: 0, len, id } => (&rest[..0], Some((len, id))),
                Hit::Marker { at, .. } => (&rest[..at], None),
            };
            self.size += piece.len();
            if let (Some(node), true) = (self.stack.last_mut(), self.size <= MAX_HELD) {
                node.text.push_str(piece);
            }
            at += piece.len();
            let Some((len, id)) = tag else {
                if piece.is_empty() {
                    return Grown::More(at);
                }
                continue;
            };
            let end = self.brackets.end;
            let Some(end) = rest[len..].find(end).filter(|at| *at <= MAX_NAME) else {
                let over = rest.len() - len > MAX_NAME + end.len();
                return if over { Grown::Bad(at) } else { Grown::More(at) };
            };
            let name = rest[len..len + end].trim();
            at += len + end + self.brackets.end.len();
            self.size += size_of::<Node>();
            if id == OPEN {
                if self.stack.len() == MAX_DEPTH {
                    return Grown::Bad(at);
                }
                self.stack.push(Node { name: name.to_owned(), ..Node::default() });
                continue;
            }
            match self.stack.pop() {
                Some(node) if node.name == name => match self.stack.last_mut() {
                    // Too long: read to its end, and kept no longer.
                    Some(_) if self.size > MAX_HELD => {}
                    Some(parent) => parent.children.push(node),
                    None if self.size > MAX_HELD => return Grown::Bad(at),
                    None => {
                        self.done = Some(node);
                        return Grown::Done(at);
                    }
                },
                _ => return Grown::Bad(at),
            }
        }
        Grown::More(at)
    }

    /// The complete parameter as JSON, typed by the tool's schema.
    pub(super) fn json(self, schema: &str) -> String {
        let root: Value = serde_json::from_str(schema).unwrap_or_default();
        let node = self.done.unwrap_or_default();
        let own = root.get("properties").and_then(|p| p.get(&node.name));
        let mut out = String::new();
        node.write(own, &root, &mut out);
        out
    }
}

impl Node {
    fn write(&self, schema: Option<&Value>, root: &Value, out: &mut String) {
        let schema = schema.map(|s| resolve(s, root));
        let accepts = schema.map_or(JsonTypes::empty(), |s| types(s, root));
        if self.children.is_empty() {
            out.push_str(&self.leaf(accepts));
            return;
        }
        let items = self.children.iter().all(|c| c.name == "item");
        let array = accepts.accepts(JsonTypes::ARRAY) || (!accepts.accepts(JsonTypes::OBJECT) && items);
        if array {
            let item = schema.and_then(|s| s.get("items"));
            list(self.children.iter(), item, root, out);
            return;
        }
        out.push('{');
        let mut keys: Vec<&str> = Vec::new();
        for child in &self.children {
            if keys.contains(&child.name.as_str()) {
                continue;
            }
            out.push_str(if keys.is_empty() { "" } else { ", " });
            keys.push(&child.name);
            out.push_str(&json::quote(&child.name));
            out.push_str(": ");
            let property = schema.and_then(|s| s.get("properties")).and_then(|p| p.get(&child.name));
            let same = || self.children.iter().filter(|c| c.name == child.name);
            if same().nth(1).is_some() {
                // A key that repeats is a list.
                list(same(), property.and_then(|p| p.get("items")), root, out);
            } else {
                child.write(property, root, out);
            }
        }
        if !self.text.trim().is_empty() {
            out.push_str(", \"$text\": ");
            out.push_str(&json::quote(self.text.trim()));
        }
        out.push('}');
    }

    fn leaf(&self, accepts: JsonTypes) -> String {
        let text = self.text.trim();
        if text.is_empty() && !accepts.accepts(JsonTypes::STRING) {
            if accepts.accepts(JsonTypes::ARRAY) {
                return "[]".to_owned();
            }
            if accepts.accepts(JsonTypes::OBJECT) {
                return "{}".to_owned();
            }
        }
        if accepts.is_empty() && matches!(text, "true" | "false" | "null") {
            return text.to_owned();
        }
        coerce::coerce(&self.text, accepts)
    }
}

fn list<'a>(items: impl Iterator<Item = &'a Node>, schema: Option<&Value>, root: &Value, out: &mut String) {
    out.push('[');
    for (n, item) in items.enumerate() {
        out.push_str(if n == 0 { "" } else { ", " });
        item.write(schema, root, out);
    }
    out.push(']');
}

/// Follows one local `$ref`.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
    target.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

/// All types that a schema accepts.
pub(crate) fn types(schema: &Value, root: &Value) -> JsonTypes {
    types_at(resolve(schema, root), root, 0)
}

fn types_at(schema: &Value, root: &Value, depth: usize) -> JsonTypes {
    let named = match schema.get("type") {
        Some(Value::String(name)) => JsonTypes::from_name(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).fold(JsonTypes::empty(), |a, n| a | JsonTypes::from_name(n))
        }
        _ => JsonTypes::empty(),
    };
    if depth == MAX_DEPTH {
        return named;
    }
    let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    parts.fold(named, |all, part| all | types_at(resolve(part, root), root, depth + 1))
}
