//! Recognises the tags of one format: tolerant of spacing and quoting, strict about names.

use super::{CallForm, ParamForm, Slot, TagCalls, Typing};
use crate::limit::{limit, window};
use crate::scan::{Begins, begins};

/// Longest tag; what is longer is text.
const MAX_TAG: usize = limit(1024);

/// What an element is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Outer,
    Block,
    Call,
    Param,
    Key,
    Kind,
    Value,
    Ignored,
}

/// A recognised tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// Bytes from bracket to bracket.
    pub(super) len: usize,
    pub(super) role: Role,
    pub(super) closing: bool,
    pub(super) self_closing: bool,
    /// The function's name or the parameter's key.
    pub(super) name: Option<&'a str>,
    /// The typing attribute.
    pub(super) typed: Option<&'a str>,
}

/// Whether text begins with a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lex<'a> {
    Tag(Tag<'a>),
    /// It may become one.
    Partial,
    Not,
}

/// An element that the format knows.
#[derive(Clone, Debug)]
struct Element {
    tag: &'static str,
    role: Role,
    slot: Option<Slot>,
}

/// The lexer of one format.
#[derive(Clone, Debug)]
pub(super) struct Lexer {
    spec: &'static TagCalls,
    elements: Vec<Element>,
    typed: Option<&'static str>,
}

impl Lexer {
    pub(super) fn new(spec: &'static TagCalls) -> Lexer {
        let plain = |tag, role| Element { tag, role, slot: None };
        let mut elements: Vec<Element> = spec.blocks.iter().map(|tag| plain(*tag, Role::Block)).collect();
        elements.extend(spec.outer.iter().map(|tag| plain(*tag, Role::Outer)));
        if let CallForm::Element { tag, name } = spec.call {
            elements.push(Element { tag, role: Role::Call, slot: Some(name) });
        }
        match spec.param {
            ParamForm::Element { tag, key } => elements.push(Element { tag, role: Role::Param, slot: Some(key) }),
            ParamForm::Tree => {}
            ParamForm::Pair { key, kind, value } => {
                elements.extend([plain(key, Role::Key), plain(value, Role::Value)]);
                elements.extend(kind.map(|tag| plain(tag, Role::Kind)));
            }
        }
        elements.extend(spec.ignored.iter().map(|tag| plain(*tag, Role::Ignored)));
        // Longest first: a name may begin with another one.
        elements.sort_by_key(|e| std::cmp::Reverse(e.tag.len()));
        let typed = match spec.typing {
            Typing::Attribute(name) | Typing::Named(name) => Some(name),
            Typing::Schema => None,
        };
        Lexer { spec, elements, typed }
    }

    /// Openers and closers in the format's first spelling.
    pub(super) fn markers(&self) -> Vec<String> {
        let prefix = self.spec.prefixes.first().copied().unwrap_or_default();
        let super::Brackets { open, close, end } = self.spec.brackets;
        let mut all = Vec::new();
        for e in &self.elements {
            let head = match e.slot {
                None => format!("{open}{prefix}{}{end}", e.tag),
                Some(Slot::Equals) => format!("{open}{prefix}{}=", e.tag),
                Some(Slot::Attribute(a)) => format!("{open}{prefix}{} {a}=\"", e.tag),
            };
            all.extend([head, format!("{close}{prefix}{}{end}", e.tag)]);
        }
        all
    }

    /// Whether `input` begins with a tag of the format.
    pub(super) fn lex<'a>(&self, input: &'a str, last: bool) -> Lex<'a> {
        let (seen, full) = window(input, MAX_TAG, last);
        match self.scan(seen) {
            Err(Cut::Short) if !full => Lex::Partial,
            Err(_) => Lex::Not,
            Ok(tag) => Lex::Tag(tag),
        }
    }

    fn scan<'a>(&self, input: &'a str) -> Result<Tag<'a>, Cut> {
        // `</` begins with `<`, so closing comes first.
        self.side(input, self.spec.brackets.close, true).or_else(|cut| {
            let open = self.side(input, self.spec.brackets.open, false);
            if cut == Cut::Short && open == Err(Cut::No) { Err(Cut::Short) } else { open }
        })
    }

    fn side<'a>(&self, input: &'a str, bracket: &str, closing: bool) -> Result<Tag<'a>, Cut> {
        let mut cursor = Cursor { text: input, at: 0 };
        cursor.expect(bracket)?;
        let spaced = self.spec.brackets != super::Brackets::ANGLE;
        let mut result = Err(Cut::No);
        for prefix in self.spec.prefixes {
            let mut after = cursor;
            let spaced = spaced || !prefix.is_empty();
            match after.expect(prefix).and_then(|()| self.element(after, closing, spaced)) {
                Ok(tag) => return Ok(tag),
                Err(Cut::Short) => result = Err(Cut::Short),
                Err(Cut::No) => {}
            }
        }
        result
    }

    /// The rest of a tag after its prefix.
    fn element<'a>(&self, mut cursor: Cursor<'a>, closing: bool, spaced: bool) -> Result<Tag<'a>, Cut> {
        if spaced {
            cursor.spaces()?;
        }
        let mut result = Err(Cut::No);
        for element in &self.elements {
            let mut after = cursor;
            match after.expect(element.tag).and_then(|()| self.attributes(after, element, closing)) {
                Ok(tag) => return Ok(tag),
                Err(Cut::Short) => result = Err(Cut::Short),
                Err(Cut::No) => {}
            }
        }
        result
    }

    /// The rest of a tag after its name.
    fn attributes<'a>(&self, mut cursor: Cursor<'a>, element: &Element, closing: bool) -> Result<Tag<'a>, Cut> {
        let end = self.spec.brackets.end;
        let mut tag = Tag { len: 0, role: element.role, closing, self_closing: false, name: None, typed: None };
        if !closing && element.slot == Some(Slot::Equals) {
            cursor.expect("=")?;
            let value = cursor.until(end)?;
            tag.name = Some(value.trim().trim_matches(['"', '\'']));
            tag.len = cursor.at;
            return Ok(tag);
        }
        if self.spec.suffix && cursor.optional(":")? {
            cursor.word()?;
        }
        loop {
            let spaced = cursor.spaces()?;
            if cursor.optional(end)? {
                break;
            }
            if !closing && cursor.optional("/")? {
                cursor.expect(end)?;
                tag.self_closing = true;
                break;
            }
            let (Some(Slot::Attribute(slot)), true, false) = (element.slot, spaced, closing) else {
                return Err(Cut::No);
            };
            let (key, value) = cursor.attribute()?;
            if key == slot {
                tag.name = Some(value);
            } else if Some(key) == self.typed {
                tag.typed = Some(value);
            }
        }
        if !closing && element.slot.is_some() && tag.name.is_none() {
            return Err(Cut::No);
        }
        tag.len = cursor.at;
        Ok(tag)
    }
}

/// Why text is no tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// It ends too early.
    Short,
    No,
}

#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn expect(&mut self, literal: &str) -> Result<(), Cut> {
        let rest = &self.text.as_bytes()[self.at..];
        match begins(rest, literal.as_bytes()) {
            Begins::Whole => {
                self.at += literal.len();
                Ok(())
            }
            Begins::Part => Err(Cut::Short),
            Begins::Not => Err(Cut::No),
        }
    }

    fn optional(&mut self, literal: &str) -> Result<bool, Cut> {
        match self.expect(literal) {
            Ok(()) => Ok(true),
            Err(Cut::No) => Ok(false),
            Err(Cut::Short) => Err(Cut::Short),
        }
    }

    /// Skips spaces; true if there were any. An end of the text here leaves the tag open.
    fn spaces(&mut self) -> Result<bool, Cut> {
        let rest = self.rest();
        let body = rest.trim_start();
        self.at += rest.len() - body.len();
        if body.is_empty() { Err(Cut::Short) } else { Ok(body.len() < rest.len()) }
    }

    /// Reads up to `end`, which is skipped. Nothing in between may be a bracket, and it may not be empty.
    fn until(&mut self, end: &str) -> Result<&'a str, Cut> {
        let rest = self.rest();
        let Some(at) = rest.find(['<', '>']) else { return Err(Cut::Short) };
        if at == 0 {
            return Err(Cut::No);
        }
        self.at += at;
        self.expect(end)?;
        Ok(&rest[..at])
    }

    /// Letters, digits, `_` and `-`, at least one, and something behind them.
    fn word(&mut self) -> Result<&'a str, Cut> {
        let rest = self.rest();
        let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
        if len == rest.len() {
            return Err(Cut::Short);
        }
        self.at += len;
        if len == 0 { Err(Cut::No) } else { Ok(&rest[..len]) }
    }

    /// `key="value"`, `key='value'` or `key=value`.
    fn attribute(&mut self) -> Result<(&'a str, &'a str), Cut> {
        let key = self.word()?;
        self.expect("=")?;
        for quote in ['"', '\''] {
            if self.optional(quote.encode_utf8(&mut [0; 4]))? {
                let rest = self.rest();
                let len = rest.find([quote, '\n']).ok_or(Cut::Short)?;
                if rest.as_bytes()[len] == b'\n' {
                    return Err(Cut::No);
                }
                self.at += len + 1;
                return Ok((key, &rest[..len]));
            }
        }
        let rest = self.rest();
        let len = rest.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/' | '<')).ok_or(Cut::Short)?;
        if len == 0 {
            return Err(Cut::No);
        }
        self.at += len;
        Ok((key, &rest[..len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static DSML: TagCalls = TagCalls {
        prefixes: &["｜DSML｜"],
        blocks: &["tool_calls"],
        call: CallForm::Element { tag: "invoke", name: Slot::Attribute("name") },
        param: ParamForm::Element { tag: "parameter", key: Slot::Attribute("name") },
        typing: Typing::Attribute("string"),
        ..TagCalls::BASE
    };
    static QWEN: TagCalls = TagCalls {
        blocks: &["tool_call"],
        call: CallForm::Element { tag: "function", name: Slot::Equals },
        param: ParamForm::Element { tag: "parameter", key: Slot::Equals },
        ..TagCalls::BASE
    };

    /// Every strict prefix of `text` is partial, `text` itself a tag.
    fn tag<'a>(lexer: &Lexer, text: &'a str) -> Tag<'a> {
        for (at, _) in text.char_indices().skip(1) {
            assert_eq!(lexer.lex(&text[..at], false), Lex::Partial, "{}", &text[..at]);
            assert_eq!(lexer.lex(&text[..at], true), Lex::Not, "{}", &text[..at]);
        }
        match lexer.lex(text, false) {
            Lex::Tag(tag) => tag,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn reads_dsml_tags_of_every_spelling() {
        let lexer = Lexer::new(&DSML);
        let p = tag(&lexer, "<｜DSML｜parameter name=\"a>b\" string=\"true\">");
        assert_eq!((p.role, p.name, p.typed), (Role::Param, Some("a>b"), Some("true")));
        assert!(tag(&lexer, "<｜DSML｜ invoke name='f' />").self_closing);
        assert!(tag(&lexer, "</｜DSML｜ invoke>").closing);
        assert_eq!(tag(&lexer, "<｜DSML｜tool_calls>").role, Role::Block);
    }

    #[test]
    fn prose_is_not_a_tag() {
        let lexer = Lexer::new(&DSML);
        for text in ["<｜DSML｜invoke name= and", "<｜DSML｜ markers", "<｜DSML｜invoke>", "</｜DSML｜param now", "<b>"]
        {
            assert_eq!(lexer.lex(text, false), Lex::Not, "{text}");
        }
    }

    #[test]
    fn reads_equals_tags() {
        let lexer = Lexer::new(&QWEN);
        assert_eq!(tag(&lexer, "<function=get_weather>").name, Some("get_weather"));
        assert_eq!(tag(&lexer, "<parameter=\"city\">").name, Some("city"));
        assert_eq!(lexer.lex("<function=>", false), Lex::Not);
        assert_eq!(lexer.lex("<tool_calendar>", false), Lex::Not);
    }
}
