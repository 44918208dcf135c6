//! What a request promises about its output, as a grammar: `response_format`, `structured_outputs`, `tool_choice`, strict
//! tools. What cannot be promised is refused, never let pass.

use std::sync::Arc;

use sluicegate_backend::grammar::Grammar;

use crate::chat::{Request, ResponseFormat, ToolChoice};
use crate::error::{Error, Kind};
use crate::grammar::{Grammars, Rule, Spec};
use crate::plugins::{Constraint, Event, GrammarInput, Pinned, PluginError, Start, StopCause, StreamConfig, ToolSet};
use crate::route::Route;

/// The least answer that every structured format can begin with.
const PROBE: &str = "{}";

/// What a request's grammar is made from.
pub(super) struct Asked<'a> {
    pub(super) route: &'a Route,
    pub(super) request: &'a Request,
    pub(super) pinned: Option<&'a Pinned>,
    /// How the prompt ends.
    pub(super) tail: &'a str,
    /// What the request's parsers are opened with.
    pub(super) config: StreamConfig,
}

/// Whether [`Asked::grammar`] has anything to do.
pub(super) fn is_wanted(route: &Route, request: &Request) -> bool {
    // An upstream that takes messages reads the promises from the request itself; a recording keeps none.
    let ours = route.grammars.is_some() || route.upstream.takes_tokens();
    ours && (wants_calls(request) || !matches!(request.response_format, ResponseFormat::Text))
}

/// Whether calls have to obey something.
fn wants_calls(request: &Request) -> bool {
    !request.tools.is_empty()
        && match request.tool_choice {
            ToolChoice::Required | ToolChoice::Named(_) => true,
            ToolChoice::Auto => request.tools.iter().any(|tool| tool.strict),
            ToolChoice::None => false,
        }
}

impl Asked<'_> {
    /// The grammar of the output; none if nothing is promised. Takes a while: not for async threads.
    pub(super) fn grammar(&self) -> Result<Option<Arc<dyn Grammar>>, Error> {
        let Some(grammars) = self.route.grammars.as_deref() else {
            return Err(self.impossible("the engine of this model follows no grammars (upstream.workers does not yet)"));
        };
        let request = self.request;
        let must_call = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        let answer = answer(&request.response_format);
        match answer {
            // A message that must be a call has no text of its own.
            Some(_) if must_call && !request.tools.is_empty() => self.calls(grammars, &request.tool_choice),
            None if wants_calls(request) => self.calls(grammars, &request.tool_choice),
            None => Ok(None),
            Some((rule, field)) => {
                let start = self.start_of_answer(field)?;
                let mut spec = Spec { any_of: vec![rule], start, markup: false };
                let alone = grammars.compile(&spec).map_err(|error| refused(field, &error.to_string()))?;
                if request.tools.is_empty() || request.tool_choice == ToolChoice::None {
                    return Ok(Some(alone));
                }
                // The model may still call a tool instead.
                let calls = self.constraint(&ToolChoice::Required)?;
                spec.any_of.push(Rule::Lark(calls.lark));
                spec.markup = true;
                self.compile_calls(grammars, &spec).map(Some)
            }
        }
    }

    fn calls(&self, grammars: &Grammars, choice: &ToolChoice) -> Result<Option<Arc<dyn Grammar>>, Error> {
        if *choice == ToolChoice::Auto {
            // Nothing to obey, in the format's opinion, is nothing to promise.
            return match self.ask(choice)? {
                None => Ok(None),
                Some(constraint) => self.compile_calls(grammars, &of_calls(constraint)).map(Some),
            };
        }
        let constraint = self.constraint(choice)?;
        self.compile_calls(grammars, &of_calls(constraint)).map(Some)
    }

    /// A grammar that must be there.
    fn constraint(&self, choice: &ToolChoice) -> Result<Constraint, Error> {
        let format = self.route.format.as_ref().map_or("", |format| format.name.as_str());
        let nothing = || self.impossible(&format!("the format {format:?} has no grammar for these tools"));
        self.ask(choice)?.ok_or_else(nothing)
    }

    fn ask(&self, choice: &ToolChoice) -> Result<Option<Constraint>, Error> {
        let Some((pinned, format)) = self.pinned.zip(self.route.format.as_ref()) else {
            return Err(self.impossible("this model has no format, so its calls are not recognised"));
        };
        let input = GrammarInput {
            tools: &ToolSet::new(&self.request.tools),
            tool_choice: choice,
            parallel_tools: self.request.parallel_tool_calls,
            reasoning: self.request.reasoning,
            prompt_tail: self.tail,
            options: &format.options,
        };
        pinned.constrain(&input).map_err(|error| match error {
            PluginError::NoFace { .. } => {
                self.impossible(&format!("the format {:?} of this model has no grammar", format.name))
            }
            PluginError::Unsupported { message, .. } => refused("tools", &message),
            other => other.into(),
        })
    }

    /// Refuses what asked for calls that can't be promised.
    fn impossible(&self, why: &str) -> Error {
        let request = self.request;
        let strict = request.tools.iter().position(|tool| tool.strict);
        let (param, what) = match (&request.tool_choice, strict) {
            (ToolChoice::Auto, Some(at)) => {
                (format!("tools[{at}].function.strict"), "strict arguments cannot be guaranteed; send strict: false")
            }
            (ToolChoice::Auto | ToolChoice::None, _) => (
                "response_format".to_owned(),
                "it cannot be guaranteed here; send no response_format, or with tools tool_choice \"none\"",
            ),
            _ => ("tool_choice".to_owned(), "a call cannot be guaranteed; send \"auto\""),
        };
        Error::new(Kind::BadRequest, format!("{param}: {why}: {what}")).param(param).code("grammar_unsupported")
    }

    /// A grammar of the format that does not compile: a tool's schema is at fault, or else the plugin.
    fn compile_calls(&self, grammars: &Grammars, spec: &Spec) -> Result<Arc<dyn Grammar>, Error> {
        grammars.compile(spec).map_err(|error| {
            for (at, tool) in self.request.tools.iter().enumerate() {
                let Some(schema) = &tool.parameters else { continue };
                let any_of = vec![Rule::JsonSchema(schema.get().to_owned())];
                let alone = Spec { any_of, start: Start::Immediately, markup: false };
                if let Err(error) = grammars.compile(&alone) {
                    return refused(&format!("tools[{at}].function.parameters"), &error.to_string());
                }
            }
            let message = format!("the format's grammar cannot be used: {error}");
            Error::new(Kind::Plugin, message).code("plugin_failed")
        })
    }

    /// From where on the answer is an answer. The format's own parser says: after which of its markers, given the end of
    /// this prompt, does plain text become content?
    fn start_of_answer(&self, field: &str) -> Result<Start, Error> {
        let Some(pinned) = self.pinned else { return Ok(Start::Immediately) };
        if self.is_content(pinned, "")? {
            return Ok(Start::Immediately);
        }
        for marker in &pinned.descriptor().markers {
            if self.is_content(pinned, marker)? {
                return Ok(Start::After(marker.clone()));
            }
        }
        let message = format!(
            "{field}: the format {:?} of this model wraps its answers in markup, and they cannot be constrained",
            pinned.descriptor().name
        );
        Err(Error::new(Kind::BadRequest, message).param(field).code("grammar_unsupported"))
    }

    fn is_content(&self, pinned: &Pinned, marker: &str) -> Result<bool, Error> {
        let mut parser = pinned.open(&self.config, None)?;
        let mut events = parser.push(&format!("{marker}{PROBE}"), &[])?;
        events.extend(parser.finish(&StopCause::Eos(None))?.events);
        let content: String = events
            .iter()
            .filter_map(|event| match event {
                Event::Content(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let other = events.iter().any(|event| {
            matches!(event, Event::ToolStart { .. } | Event::Malformed(_))
                || matches!(event, Event::Reasoning(text) if !text.trim().is_empty())
        });
        Ok(content == PROBE && !other)
    }
}

fn of_calls(constraint: Constraint) -> Spec {
    Spec { any_of: vec![Rule::Lark(constraint.lark)], start: constraint.start, markup: true }
}

/// The rule of the answer's text, and the field that it comes from.
fn answer(format: &ResponseFormat) -> Option<(Rule, &'static str)> {
    Some(match format {
        ResponseFormat::Text => return None,
        ResponseFormat::JsonObject => (Rule::JsonObject, "response_format"),
        ResponseFormat::JsonSchema(schema) => {
            (Rule::JsonSchema(schema.get().to_owned()), "response_format.json_schema.schema")
        }
        ResponseFormat::Regex(regex) => (Rule::Regex(regex.clone()), "structured_outputs.regex"),
        ResponseFormat::Choice(texts) => (Rule::Choice(texts.clone()), "structured_outputs.choice"),
        ResponseFormat::Grammar(lark) => (Rule::Lark(lark.clone()), "structured_outputs.grammar"),
    })
}

fn refused(param: &str, why: &str) -> Error {
    Error::new(Kind::BadRequest, format!("{param}: {why}")).param(param).code("invalid_grammar")
}
