//! One format of one version, held for one request.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bindings::{grammar, render};
use super::descriptor::{Descriptor, Plugin};
use super::error::PluginError;
use super::event::StreamConfig;
use super::lower;
use super::stream::Stream;
use super::tools::ToolSet;
use super::version::{SeatError, Version};
use crate::chat;

/// The plugin version that a request began on: its prompt, its grammar and its parsers all come from here, whatever
/// is loaded in the meantime.
#[derive(Clone)]
pub struct Pinned {
    version: Arc<Version>,
    format: usize,
}

/// What a grammar is made from.
#[derive(Clone, Debug)]
pub struct GrammarInput<'a> {
    /// The request's tools.
    pub tools: &'a ToolSet,
    /// Tool choice.
    pub tool_choice: &'a chat::ToolChoice,
    /// Whether several calls in one turn are allowed.
    pub parallel_tools: bool,
    /// Reasoning.
    pub reasoning: chat::Reasoning,
    /// The end of the rendered prompt.
    pub prompt_tail: &'a str,
    /// The route's options for the format, JSON text.
    pub options: &'a str,
}

/// Constrains what the model may generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// A grammar in llguidance's Lark dialect.
    pub lark: String,
    /// Where it begins to apply.
    pub start: Start,
}

/// Where a grammar begins to apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// From the first generated token.
    Immediately,
    /// After this text has been generated.
    After(String),
    /// From this text on, which the grammar includes; before it, text is free.
    Triggered(String),
}

/// What a prompt is made from.
#[derive(Clone, Debug)]
pub struct RenderInput<'a> {
    /// Model name as the client wrote it.
    pub model: &'a str,
    /// The conversation in OpenAI's shape, normalised, JSON text.
    pub messages: &'a str,
    /// The request's tools.
    pub tools: &'a ToolSet,
    /// Tool choice.
    pub tool_choice: &'a chat::ToolChoice,
    /// Reasoning.
    pub reasoning: chat::Reasoning,
    /// Whether the prompt ends where the assistant begins.
    pub add_generation_prompt: bool,
    /// Seconds since the epoch.
    pub now: u64,
    /// The route's options for the format, JSON text.
    pub options: &'a str,
}

/// A piece of a rendered prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Template text: control tokens in it are recognised.
    Text(String),
    /// One special token, by its text.
    Special(String),
    /// Text of the user: never becomes a control token.
    User(String),
    /// The n-th image or audio part of the request.
    Media(u32),
}

impl Pinned {
    pub(super) fn new(version: Arc<Version>, format: usize) -> Self {
        Self { version, format }
    }

    /// The format.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.version.plugin.formats[self.format]
    }

    /// The plugin.
    #[must_use]
    pub fn plugin(&self) -> &Plugin {
        &self.version.plugin
    }

    /// SHA-256 of the component, in hex.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.version.sha256
    }

    /// Whether the component exports the grammar interface and the format uses it.
    #[must_use]
    pub fn has_grammar(&self) -> bool {
        self.version.code.has_grammar() && self.descriptor().features.grammar
    }

    /// Whether the component exports the render interface and the format uses it.
    #[must_use]
    pub fn has_render(&self) -> bool {
        self.version.code.has_render() && self.descriptor().features.render
    }

    /// Opens the parser of one choice. Pass no tools when the request has none.
    ///
    /// # Errors
    /// The plugin's constructor failed twice, or no store is free.
    pub fn open(&self, config: &StreamConfig, tools: Option<Arc<ToolSet>>) -> Result<Stream, PluginError> {
        Stream::open(Arc::clone(&self.version), self.format, config, tools)
    }

    /// Asks for a grammar; none: nothing to constrain.
    ///
    /// # Errors
    /// The format has no grammar, refuses this input, or the plugin failed.
    pub fn constrain(&self, input: &GrammarInput<'_>) -> Result<Option<Constraint>, PluginError> {
        let none = || PluginError::NoFace { plugin: self.name(), format: self.format_name(), face: "grammar" };
        if !self.has_grammar() {
            return Err(none());
        }
        let input = grammar::GrammarInput {
            format: self.format_name(),
            tools: input.tools.tools.clone(),
            tool_choice: lower::choice(input.tool_choice),
            parallel_tools: input.parallel_tools,
            reasoning: lower::reasoning(input.reasoning),
            prompt_tail: lower::prompt_tail(input.prompt_tail),
            options: input.options.to_owned(),
        };
        let answer = self.version.aside(|guest| match &guest.grammar {
            Some(grammar) => grammar.call_constrain(&mut guest.store, &input),
            None => Ok(Ok(None)),
        });
        let constraint = answer
            .map_err(|error| self.aside_failed("constrain", error))?
            .map_err(|message| PluginError::Unsupported { format: self.format_name(), message })?;
        Ok(constraint.map(|constraint| Constraint {
            lark: constraint.lark,
            start: match constraint.start {
                grammar::Start::Immediately => Start::Immediately,
                grammar::Start::After(text) => Start::After(text),
                grammar::Start::Triggered(text) => Start::Triggered(text),
            },
        }))
    }

    /// Writes the prompt.
    ///
    /// # Errors
    /// The format has no renderer, refuses this input, or the plugin failed.
    pub fn render(&self, input: &RenderInput<'_>) -> Result<Vec<Piece>, PluginError> {
        if !self.has_render() {
            return Err(PluginError::NoFace { plugin: self.name(), format: self.format_name(), face: "render" });
        }
        let input = render::RenderInput {
            format: self.format_name(),
            model: input.model.to_owned(),
            messages: input.messages.to_owned(),
            tools: input.tools.tools.clone(),
            tool_choice: lower::choice(input.tool_choice),
            reasoning: lower::reasoning(input.reasoning),
            add_generation_prompt: input.add_generation_prompt,
            now: input.now,
            options: input.options.to_owned(),
        };
        let answer = self.version.aside(|guest| match &guest.render {
            Some(render) => render.call_render(&mut guest.store, &input),
            None => Ok(Ok(Vec::new())),
        });
        let pieces = answer.map_err(|error| self.aside_failed("render", error))?.map_err(|error| {
            let (render::RenderError::Unsupported(message) | render::RenderError::Invalid(message)) = error;
            PluginError::Unsupported { format: self.format_name(), message }
        })?;
        Ok(pieces
            .into_iter()
            .map(|piece| match piece {
                render::Piece::Text(text) => Piece::Text(text),
                render::Piece::Special(text) => Piece::Special(text),
                render::Piece::User(text) => Piece::User(text),
                render::Piece::Media(n) => Piece::Media(n),
            })
            .collect())
    }

    fn aside_failed(&self, call: &'static str, error: SeatError) -> PluginError {
        let cause = match error {
            SeatError::Failed(cause) => cause,
            SeatError::Gone => super::error::Cause::Trap,
            SeatError::Refused(error) => return error,
        };
        self.version.host.counters.failure(cause);
        self.version.stream_failed();
        let (plugin, version) = (self.name(), self.plugin().version.clone());
        PluginError::Failed { plugin, version, format: self.format_name(), call, cause }
    }

    fn name(&self) -> String {
        self.version.name.clone()
    }

    fn format_name(&self) -> String {
        self.descriptor().name.clone()
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} {} of {})", self.descriptor().name, self.plugin().version, self.version.name)
    }
}
