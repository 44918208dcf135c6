//! A format as data, and a plugin as a list of formats.

use std::sync::Arc;

use crate::channels::{ChannelFormat, ChannelMachine, Channels};
use crate::config::ParserConfig;
use crate::describe::{Descriptor, Features, Hint, OPTIONS_SCHEMA};
use crate::emit::{AfterCalls, Layout};
use crate::grammar::{self, Constraint, GrammarInput};
use crate::parser::Parser;
use crate::stream::{Machine, TextFormat, TextMachine};
use crate::syntax::{Place, Syntax};
use crate::think::Think;
use crate::tools::ToolSet;
use crate::{brace, calls, python, tags};

/// How a format writes tool calls.
#[derive(Clone, Copy, Debug)]
pub enum Calls {
    /// It has none.
    None,
    /// JSON between markers.
    Json(&'static calls::JsonCalls),
    /// Gemma's brace literals.
    Brace(&'static brace::BraceCalls),
    /// Python calls.
    Python(&'static python::PythonCalls),
    /// Elements with one tag for each parameter.
    Tags(&'static tags::TagCalls),
}

/// One format. Everything is data; [`Format::BASE`] has the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// `[a-z0-9_]+`.
    pub name: &'static str,
    /// One sentence.
    pub description: &'static str,
    /// Rows of the format catalogue.
    pub catalogue: &'static [&'static str],
    /// (system, name) under which others know it.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Model families.
    pub models: &'static [&'static str],
    /// Detection rules with weights.
    pub hints: &'static [(Hint, u8)],
    /// Special tokens that the parser acts on.
    pub special_tokens: &'static [&'static str],
    /// It is told apart from text that looks like it by token ids, where there are any.
    pub token_ids: bool,
    /// Stop strings to add.
    pub stop_strings: &'static [&'static str],
    /// A renderer in the host.
    pub renderer: Option<&'static str>,
    /// Reasoning.
    pub think: Option<Think>,
    /// Tool calls.
    pub calls: Calls,
    /// Output as messages with headers, which say where reasoning and calls are; `think` is not used then.
    pub channels: Option<&'static Channels>,
    /// Layout whitespace.
    pub layout: Layout,
    /// End-of-turn tokens that some engines leave in the text; dropped at the end of a message.
    pub end_tokens: &'static [&'static str],
    /// Written before the first content (`<think>`, for clients that want raw tags).
    pub insert: &'static str,
    /// Frames around text that are never shown (`<answer>`).
    pub dropped: &'static [&'static str],
    /// The model writes line feeds of its prose as a backslash and an `n`.
    pub literal_newlines: bool,
    /// What a grammar writes around the calls.
    pub wire: Wire,
    /// Why there is no grammar for the calls, if there is none.
    pub no_grammar: &'static str,
    /// JSON Schema of the options.
    pub options: &'static str,
    /// A machine of its own: what the other fields say about text is not used then.
    pub machine: Option<MachineRule>,
}

/// Makes the parser of one message.
pub type MachineRule = fn(&ParserConfig, Arc<ToolSet>, AfterCalls) -> Box<dyn Machine>;

/// What stands around the calls of a message that holds nothing else. In templates, `~` is optional white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Template of what may stand before them.
    pub before: &'static str,
    /// What may stand behind them: a literal.
    pub after: &'static str,
}

impl Format {
    /// A format that reads nothing: all text is content.
    pub const BASE: Format = Format {
        name: "",
        description: "",
        catalogue: &[],
        aliases: &[],
        models: &[],
        hints: &[],
        special_tokens: &[],
        token_ids: false,
        stop_strings: &[],
        renderer: None,
        think: None,
        calls: Calls::None,
        channels: None,
        layout: Layout::NEWLINES,
        end_tokens: &[],
        insert: "",
        dropped: &[],
        literal_newlines: false,
        wire: Wire { before: "", after: "" },
        no_grammar: "",
        options: OPTIONS_SCHEMA,
        machine: None,
    };

    /// True if there are grammars for its calls.
    fn has_grammar(&self) -> bool {
        let calls = self.channels.is_some() || !matches!(self.calls, Calls::None);
        calls && self.no_grammar.is_empty()
    }

    /// What may begin its calls anywhere in text.
    pub(crate) fn openers(&self) -> Vec<String> {
        self.syntax()
            .into_iter()
            .flat_map(|s| s.openers())
            .filter(|o| o.place == Place::Anywhere)
            .map(|o| o.text)
            .collect()
    }

    pub(crate) fn syntax(&self) -> Option<Box<dyn Syntax>> {
        match self.calls {
            Calls::None => None,
            Calls::Json(spec) => Some(Box::new(calls::JsonSyntax::new(spec))),
            Calls::Brace(spec) => Some(Box::new(brace::BraceSyntax::new(spec))),
            Calls::Python(spec) => Some(Box::new(python::PythonSyntax::new(spec))),
            Calls::Tags(spec) => Some(Box::new(tags::TagSyntax::new(spec))),
        }
    }

    fn compile(&self) -> Compiled {
        let machine = match (self.machine, self.channels) {
            (Some(rule), _) => Kind::Own(rule),
            (None, Some(spec)) => Kind::Channels(Arc::new(ChannelFormat::new(spec, self.syntax()))),
            (None, None) => Kind::Text(Arc::new(TextFormat::new(
                self.think,
                self.syntax(),
                self.layout,
                self.end_tokens,
                self.dropped,
            ))),
        };
        Compiled { format: *self, machine }
    }
}

#[derive(Debug)]
struct Compiled {
    format: Format,
    machine: Kind,
}

/// The machine that a format runs on.
#[derive(Debug)]
enum Kind {
    Text(Arc<TextFormat>),
    Channels(Arc<ChannelFormat>),
    Own(MachineRule),
}

impl Compiled {
    fn describe(&self) -> Descriptor {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let f = &self.format;
        let (reasoning, tools, markers) = match &self.machine {
            Kind::Text(text) => (f.think.is_some(), text.syntax.is_some(), text.markers()),
            Kind::Channels(channels) => (true, true, channels.markers()),
            Kind::Own(_) => (true, true, Vec::new()),
        };
        Descriptor {
            name: f.name.to_owned(),
            description: f.description.to_owned(),
            catalogue: own(f.catalogue),
            aliases: f.aliases.iter().map(|(s, n)| ((*s).to_owned(), (*n).to_owned())).collect(),
            models: own(f.models),
            features: Features {
                reasoning,
                tools,
                parallel_tools: tools,
                token_ids: f.token_ids,
                special_tokens: !f.special_tokens.is_empty() || f.machine.is_some(),
                grammar: f.has_grammar(),
                ..Features::default()
            },
            hints: f.hints.to_vec(),
            markers,
            special_tokens: own(f.special_tokens),
            stop_strings: own(f.stop_strings),
            renderer: f.renderer.map(str::to_owned),
            options_schema: f.options.to_owned(),
            no_grammar: f.no_grammar.to_owned(),
        }
    }
}

/// The formats of one vendor family.
#[derive(Debug)]
pub struct Plugin {
    /// `[a-z0-9-]+`.
    pub name: &'static str,
    /// Semver of the plugin.
    pub version: &'static str,
    /// One sentence.
    pub description: &'static str,
    formats: Vec<Compiled>,
}

impl Plugin {
    /// Compiles the formats.
    pub fn new(name: &'static str, version: &'static str, description: &'static str, formats: &[Format]) -> Plugin {
        Plugin { name, version, description, formats: formats.iter().map(Format::compile).collect() }
    }

    /// The descriptors in order.
    pub fn describe(&self) -> Vec<Descriptor> {
        self.formats.iter().map(Compiled::describe).collect()
    }

    /// What the model may write, if the request demands calls or strict ones; see [`crate::grammar`].
    ///
    /// # Errors
    /// The format is not one of the plugin, or the tools can't be written in it.
    pub fn constrain(&self, input: &GrammarInput) -> Result<Option<Constraint>, String> {
        match self.formats.iter().find(|c| c.format.name == input.format) {
            Some(Compiled { format, .. }) if format.has_grammar() => grammar::constrain(format, input),
            Some(_) => Ok(None),
            None => Err(format!("format '{}' is not one of plugin '{}'", input.format, self.name)),
        }
    }

    /// A parser for one message. An unknown format name passes everything through as content, with a note.
    pub fn parser(&self, config: &ParserConfig, tools: Option<Arc<ToolSet>>) -> Parser {
        Parser::new(self.machine(config, tools))
    }

    fn machine(&self, config: &ParserConfig, tools: Option<Arc<ToolSet>>) -> Box<dyn Machine> {
        let mut notes = Vec::new();
        let after = after_calls(&config.options, &mut notes);
        let tools = tools.unwrap_or_default();
        let (mut insert, mut literal) = ("", false);
        let text = match self.formats.iter().find(|c| c.format.name == config.format) {
            Some(Compiled { machine: Kind::Text(text), format }) => {
                (insert, literal) = (format.insert, format.literal_newlines);
                Arc::clone(text)
            }
            Some(Compiled { machine: Kind::Channels(channels), format }) => {
                let mut machine = ChannelMachine::new(Arc::clone(channels), config, tools, format.layout);
                notes.iter().for_each(|n| machine.note(n));
                return Box::new(machine);
            }
            Some(Compiled { machine: Kind::Own(rule), .. }) => return rule(config, tools, after),
            None => {
                notes.push(format!("format '{}' is not one of plugin '{}'", config.format, self.name));
                Arc::new(TextFormat::new(None, None, Layout::VERBATIM, &[], &[]))
            }
        };
        let mut machine = TextMachine::new(text, config, tools, after);
        machine.prose(insert, literal);
        notes.iter().for_each(|n| machine.note(n));
        Box::new(machine)
    }
}

/// The policy for text after calls that the options name.
fn after_calls(options: &str, notes: &mut Vec<String>) -> AfterCalls {
    if matches!(options.trim(), "" | "{}") {
        return AfterCalls::Drop;
    }
    let parsed: serde_json::Value = serde_json::from_str(options).unwrap_or_default();
    match parsed.get("after_calls").map(serde_json::Value::as_str) {
        None | Some(Some("drop")) => AfterCalls::Drop,
        Some(Some("content")) => AfterCalls::Content,
        _ => {
            notes.push("option after_calls must be \"drop\" or \"content\"; using \"drop\"".to_owned());
            AfterCalls::Drop
        }
    }
}
