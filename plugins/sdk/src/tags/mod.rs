//! Calls written as elements with one tag for each parameter: DSML, Qwen XML, GLM, MiniMax and their kin.

mod body;
mod call;
mod follow;
mod header;
mod lexer;
mod reader;
mod tree;
mod value;

use std::sync::Arc;

use crate::scan::Markers;
use crate::syntax::{Enter, IdRule, Opener, Place, Reader, Request, Syntax};
use lexer::{Lex, Lexer, Role};
use reader::TagReader;
pub(crate) use tree::types as schema_types;

/// Where an element carries its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// In this attribute: `<invoke name="f">`.
    Attribute(&'static str),
    /// After an equals sign: `<function=f>`.
    Equals,
}

/// How a call begins.
#[derive(Clone, Copy, Debug)]
pub enum CallForm {
    /// An element of its own inside the block.
    Element {
        /// Element name.
        tag: &'static str,
        /// Where the function's name is.
        name: Slot,
    },
    /// The block is the call; the name is the text right after the block's opener, up to one of these (or up to the
    /// first known tag).
    Leading {
        /// What ends the name besides a tag.
        ends: &'static [&'static str],
    },
}

/// What tags are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brackets {
    /// Before an opening tag's name.
    pub open: &'static str,
    /// Before a closing tag's name.
    pub close: &'static str,
    /// Behind either.
    pub end: &'static str,
}

impl Brackets {
    /// `<name>` and `</name>`.
    pub const ANGLE: Brackets = Brackets { open: "<", close: "</", end: ">" };
}

/// How a parameter is written.
#[derive(Clone, Copy, Debug)]
pub enum ParamForm {
    /// `<parameter=key>value</parameter>` or `<parameter name="key">value</parameter>`.
    Element {
        /// Element name.
        tag: &'static str,
        /// Where the key is.
        key: Slot,
    },
    /// `<arg_key>key</arg_key><arg_value>value</arg_value>`, a type possibly between them.
    Pair {
        /// Element name of the key.
        key: &'static str,
        /// Element name of the type, if the format has one. A declared type wins over it.
        kind: Option<&'static str>,
        /// Element name of the value.
        value: &'static str,
    },
    /// `<key>value</key>`; children make objects, `item` children arrays.
    Tree,
}

/// What decides the JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// The tool's schema.
    Schema,
    /// This attribute: `true` means text, `false` JSON; the schema where it is absent.
    Attribute(&'static str),
    /// This attribute names the type; `string` and its like mean text, others JSON.
    Named(&'static str),
}

/// What around a value is layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueTrim {
    /// Nothing.
    Nothing,
    /// One line feed at each end.
    OneNewline,
    /// All white space at both ends.
    Whitespace,
}

/// Calls written with one tag for each parameter.
#[derive(Clone, Copy, Debug)]
pub struct TagCalls {
    /// See [`Brackets`].
    pub brackets: Brackets,
    /// What follows `<` or `</` in every tag of the format (`｜DSML｜`); several are spellings of the same.
    pub prefixes: &'static [&'static str],
    /// A tag's name may carry a checkpoint's suffix: `<tool_call:6124c78e>`.
    pub suffix: bool,
    /// Literals that open something like a block without being tags.
    pub opens: &'static [&'static str],
    /// Literals that close what `opens` opened.
    pub closes: &'static [&'static str],
    /// Names of an element around the blocks of a [`CallForm::Leading`] format.
    pub outer: &'static [&'static str],
    /// Names of the element around the calls; the first is the one that the format prescribes.
    pub blocks: &'static [&'static str],
    /// A call without the block around it counts. Its name must be declared if the tags have no prefix.
    pub bare: bool,
    /// See [`CallForm`].
    pub call: CallForm,
    /// See [`ParamForm`].
    pub param: ParamForm,
    /// See [`Typing`].
    pub typing: Typing,
    /// See [`ValueTrim`].
    pub trim: ValueTrim,
    /// A value may stand in `<![CDATA[` and `]]>`.
    pub cdata: bool,
    /// A call's body may be one JSON object instead of parameters.
    pub json_body: bool,
    /// A block may hold JSON objects with a name and arguments.
    pub objects: bool,
    /// A lone parameter of one of these names that the tool lacks and that holds an object is the arguments.
    pub unwrap: &'static [&'static str],
    /// Makes ids where the format prescribes their shape. Without it the gateway does.
    pub make_id: Option<IdRule>,
    /// Mends a name as the model wrote it.
    pub rename: Option<fn(&str, &Request) -> String>,
    /// Literals inside a block that carry no meaning and end a [`CallForm::Leading`] name (`<tool_sep>`).
    pub ignored: &'static [&'static str],
    /// Attributes are written with `&quot;` and `&amp;`.
    pub entities: bool,
    /// How a grammar writes them.
    pub wire: TagWire,
}

/// How tagged calls are written, of all the ways in which they are read. In templates, `~` is optional white space and
/// `#` a number.
#[derive(Clone, Copy, Debug)]
pub struct TagWire {
    /// A block holds one call; several calls are several blocks.
    pub one_a_block: bool,
    /// The prefix of every tag, if it is not the first of [`TagCalls::prefixes`].
    pub prefix: Option<&'static str>,
    /// Template before a call's tag.
    pub lead: &'static str,
    /// Template behind a call's closer.
    pub tail: &'static str,
    /// Templates of which one stands behind the name of a [`CallForm::Leading`] call.
    pub name_ends: &'static [&'static str],
    /// Template of more attributes of a call's tag.
    pub attributes: &'static str,
}

impl TagWire {
    /// All calls in one block, nothing around them.
    pub const BASE: TagWire =
        TagWire { one_a_block: false, prefix: None, lead: "", tail: "", name_ends: &["~"], attributes: "" };
}

impl TagCalls {
    /// Qwen XML: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`.
    pub const FUNCTION: TagCalls = TagCalls {
        blocks: &["tool_call"],
        bare: true,
        call: CallForm::Element { tag: "function", name: Slot::Equals },
        param: ParamForm::Element { tag: "parameter", key: Slot::Equals },
        trim: ValueTrim::OneNewline,
        wire: TagWire { one_a_block: true, ..TagWire::BASE },
        ..TagCalls::BASE
    };

    /// Defaults; `blocks`, `call` and `param` must be set.
    pub const BASE: TagCalls = TagCalls {
        brackets: Brackets::ANGLE,
        prefixes: &[""],
        suffix: false,
        opens: &[],
        closes: &[],
        outer: &[],
        blocks: &[],
        bare: false,
        call: CallForm::Leading { ends: &["\n"] },
        param: ParamForm::Pair { key: "arg_key", kind: None, value: "arg_value" },
        typing: Typing::Schema,
        trim: ValueTrim::Nothing,
        cdata: false,
        json_body: false,
        objects: false,
        unwrap: &[],
        make_id: None,
        rename: None,
        ignored: &[],
        entities: false,
        wire: TagWire::BASE,
    };

    /// The prefix that a grammar writes.
    pub(crate) fn written_prefix(&self) -> &'static str {
        self.wire.prefix.or(self.prefixes.first().copied()).unwrap_or_default()
    }

    /// What a block, or a call without one, is written to begin with.
    pub(crate) fn trigger(&self) -> Option<String> {
        let call = match self.call {
            CallForm::Element { tag, .. } => Some(tag),
            CallForm::Leading { .. } => self.blocks.first().copied(),
        };
        let outer = match self.call {
            CallForm::Element { .. } => self.blocks.first(),
            CallForm::Leading { .. } => self.outer.first(),
        };
        let tag = |name: &str| format!("{}{}{name}", self.brackets.open, self.written_prefix());
        match (outer, self.opens.first(), call) {
            (Some(name), ..) => Some(tag(name)),
            (None, Some(open), _) => Some((*open).to_owned()),
            (None, None, name) => name.map(tag),
        }
    }

    /// Names of the elements whose closers end a value.
    pub(crate) fn closing_names(&self) -> Vec<&'static str> {
        let value = match self.param {
            ParamForm::Element { tag, .. } => Some(tag),
            ParamForm::Pair { value, .. } => Some(value),
            // The values of a tree end where its tags say.
            ParamForm::Tree => None,
        };
        let call = match self.call {
            CallForm::Element { tag, .. } => Some(tag),
            CallForm::Leading { .. } => None,
        };
        value.into_iter().chain(call).collect()
    }

    /// How a tag may begin. A prefix marks every tag, so it alone is worth a look at what follows.
    fn begins(&self, bracket: &str, tag: &str) -> Vec<String> {
        let begin = |p: &&str| if p.is_empty() { format!("{bracket}{tag}") } else { format!("{bracket}{p}") };
        self.prefixes.iter().map(begin).collect()
    }
}

/// What the readers of one format share.
#[derive(Debug)]
struct Shared {
    spec: &'static TagCalls,
    lexer: Lexer,
    /// Where a tag may begin, and the literals that close a block.
    tags: Markers,
    /// Where the closer of a value may begin.
    closers: Markers,
}

/// Id of a place where a tag may begin.
const TAG: u16 = 0;
/// Id of a literal that closes a block.
const CLOSE: u16 = 1;

/// [`TagCalls`] compiled for parsing.
#[derive(Debug)]
pub struct TagSyntax {
    shared: Arc<Shared>,
    openers: Vec<Opener>,
}

impl TagSyntax {
    /// Compiles the lexer and the marker sets.
    pub fn new(spec: &'static TagCalls) -> TagSyntax {
        let Brackets { open, close, .. } = spec.brackets;
        let mut tags = vec![(open, TAG)];
        if !close.starts_with(open) {
            tags.push((close, TAG));
        }
        tags.extend(spec.closes.iter().map(|text| (*text, CLOSE)));
        let call = match spec.call {
            CallForm::Element { tag, .. } => Some(tag),
            CallForm::Leading { .. } => None,
        };
        let closers = spec.closing_names().into_iter().flat_map(|tag| spec.begins(close, tag)).map(|text| (text, TAG));
        let mut openers: Vec<Opener> = Vec::new();
        let calls = call.filter(|_| spec.bare || (spec.blocks.is_empty() && spec.opens.is_empty()));
        let tagged = spec.outer.iter().chain(spec.blocks).copied().chain(calls).flat_map(|tag| spec.begins(open, tag));
        for text in spec.opens.iter().map(|text| (*text).to_owned()).chain(tagged) {
            let opener = Opener { text, place: Place::Anywhere };
            if !openers.contains(&opener) {
                openers.push(opener);
            }
        }
        let shared = Shared { spec, lexer: Lexer::new(spec), tags: Markers::new(tags), closers: Markers::new(closers) };
        TagSyntax { shared: Arc::new(shared), openers }
    }

    fn reader(&self) -> TagReader {
        TagReader::in_block(Arc::clone(&self.shared))
    }
}

impl Syntax for TagSyntax {
    fn openers(&self) -> Vec<Opener> {
        self.openers.clone()
    }

    fn enter(&self, opener: usize, input: &str, last: bool, request: &Request) -> Enter {
        let spec = self.shared.spec;
        if let Some(literal) = spec.opens.get(opener) {
            return Enter::Calls(literal.len(), Box::new(self.reader()));
        }
        let tag = match self.shared.lexer.lex(input, last) {
            Lex::Partial => return Enter::Hold,
            Lex::Not => return Enter::Text,
            Lex::Tag(tag) => tag,
        };
        match (tag.role, spec.call) {
            _ if tag.closing => Enter::Text,
            (Role::Block, CallForm::Leading { .. }) => Enter::Calls(tag.len, Box::new(self.reader().at_name())),
            (Role::Block | Role::Outer, _) => Enter::Calls(tag.len, Box::new(self.reader())),
            (Role::Call, _) => {
                let marked = spec.prefixes.iter().all(|p| !p.is_empty()) || spec.brackets != Brackets::ANGLE;
                if !marked && tag.name.is_none_or(|n| request.tools.get(n).is_none()) {
                    return Enter::Text;
                }
                // The reader reads the call's own tag.
                Enter::Calls(0, Box::new(self.reader().bare()))
            }
            _ => Enter::Text,
        }
    }

    fn body(&self, named: Option<&str>) -> Option<Box<dyn Reader>> {
        let reader = self.reader();
        Some(match named {
            None => Box::new(reader),
            Some(name) => Box::new(reader.named(name)),
        })
    }

    fn markers(&self) -> Vec<String> {
        let s = self.shared.spec;
        let literals = s.opens.iter().chain(s.closes).map(|text| (*text).to_owned());
        literals.chain(self.shared.lexer.markers()).collect()
    }
}
