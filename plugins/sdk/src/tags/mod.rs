//! Calls written as elements with one tag for each parameter: DSML, Qwen XML, GLM, MiniMax and their kin.

mod call;
mod lexer;
mod reader;
mod value;

use std::sync::Arc;

use crate::scan::Markers;
use crate::syntax::{Enter, Opener, Place, Request, Syntax};
use lexer::{Lex, Lexer, Role};
use reader::TagReader;

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
    /// `<arg_key>key</arg_key><arg_value>value</arg_value>`.
    Pair {
        /// Element name of the key.
        key: &'static str,
        /// Element name of the value.
        value: &'static str,
    },
}

/// What decides the JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// The tool's schema.
    Schema,
    /// This attribute: `true` means text, `false` JSON; the schema where it is absent.
    Attribute(&'static str),
}

/// What around a value is layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueTrim {
    /// Nothing.
    Nothing,
    /// One line feed at each end.
    OneNewline,
    /// All line feeds... and spaces at both ends.
    Whitespace,
}

/// Calls written with one tag for each parameter.
#[derive(Clone, Copy, Debug)]
pub struct TagCalls {
    /// What follows `<` or `</` in every tag of the format (`｜DSML｜`); several are spellings of the same.
    pub prefixes: &'static [&'static str],
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
    /// A call's body may be one JSON object instead of parameters.
    pub json_body: bool,
    /// A lone parameter of one of these names that the tool lacks and that holds an object is the arguments.
    pub unwrap: &'static [&'static str],
    /// Literals inside a block that carry no meaning and end a [`CallForm::Leading`] name (`<tool_sep>`).
    pub ignored: &'static [&'static str],
}

impl TagCalls {
    /// Defaults; `blocks`, `call` and `param` must be set.
    pub const BASE: TagCalls = TagCalls {
        prefixes: &[""],
        blocks: &[],
        bare: false,
        call: CallForm::Leading { ends: &["\n"] },
        param: ParamForm::Pair { key: "arg_key", value: "arg_value" },
        typing: Typing::Schema,
        trim: ValueTrim::Nothing,
        json_body: false,
        unwrap: &[],
        ignored: &[],
    };
}

/// What the readers of one format share.
#[derive(Debug)]
struct Shared {
    spec: &'static TagCalls,
    lexer: Lexer,
    /// What may end a value: closers of the value, and of the call where the value's own was forgotten.
    closers: Markers,
}

/// Id of a literal that closes a value.
const VALUE_END: u16 = 0;
/// Id of a literal that closes the call around it.
const CALL_END: u16 = 1;

/// [`TagCalls`] compiled for parsing.
#[derive(Debug)]
pub struct TagSyntax {
    shared: Arc<Shared>,
    /// Opener literals and whether each is a bare call's.
    openers: Vec<Opener>,
}

impl TagSyntax {
    /// Compiles the lexer and the marker sets.
    pub fn new(spec: &'static TagCalls) -> TagSyntax {
        let lexer = Lexer::new(spec);
        let mut closers: Vec<(String, u16)> = Vec::new();
        let value = match spec.param {
            ParamForm::Element { tag, .. } => tag,
            ParamForm::Pair { value, .. } => value,
        };
        lexer.spellings(value, true).for_each(|s| closers.push((s, VALUE_END)));
        if let CallForm::Element { tag, .. } = spec.call {
            lexer.spellings(tag, true).for_each(|s| closers.push((s, CALL_END)));
        }
        let mut openers = Vec::new();
        let mut add = |text: String| {
            let opener = Opener { text, place: Place::Anywhere };
            if !openers.contains(&opener) {
                openers.push(opener);
            }
        };
        let tags = spec.blocks.iter().copied().chain(match spec.call {
            CallForm::Element { tag, .. } if spec.bare || spec.blocks.is_empty() => Some(tag),
            _ => None,
        });
        for tag in tags {
            for prefix in spec.prefixes {
                // A prefix marks every tag, so it alone is worth a look at what follows.
                add(if prefix.is_empty() { format!("<{tag}") } else { format!("<{prefix}") });
            }
        }
        TagSyntax { shared: Arc::new(Shared { spec, lexer, closers: Markers::new(closers) }), openers }
    }
}

impl Syntax for TagSyntax {
    fn openers(&self) -> Vec<Opener> {
        self.openers.clone()
    }

    fn enter(&self, _opener: usize, input: &str, last: bool, request: &Request) -> Enter {
        let shared = &self.shared;
        let tag = match shared.lexer.lex(input, last) {
            Lex::Partial => return Enter::Hold,
            Lex::Not => return Enter::Text,
            Lex::Tag(tag) => tag,
        };
        if tag.closing {
            return Enter::Text;
        }
        match tag.role {
            Role::Block => match shared.spec.call {
                CallForm::Element { .. } => Enter::Calls(tag.len, Box::new(TagReader::in_block(Arc::clone(shared)))),
                CallForm::Leading { .. } => Enter::Calls(tag.len, Box::new(TagReader::at_name(Arc::clone(shared)))),
            },
            Role::Call => {
                let known = shared.spec.prefixes.iter().all(|p| !p.is_empty());
                if !known && tag.name.is_none_or(|n| request.tools.get(n).is_none()) {
                    return Enter::Text;
                }
                // The reader reads the call's own tag.
                Enter::Calls(0, Box::new(TagReader::bare(Arc::clone(shared))))
            }
            _ => Enter::Text,
        }
    }

    fn markers(&self) -> Vec<String> {
        self.shared.lexer.markers()
    }
}
