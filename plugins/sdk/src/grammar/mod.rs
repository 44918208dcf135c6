//! The grammar face: what a model may write when it must call, in llguidance's Lark dialect.
//!
//! A grammar admits calls of declared tools as the format prescribes them, one after the other where the request allows
//! several, and nothing else: no text before or between them, parameters in the order of the schema, required ones
//! always. Where generation begins inside reasoning, it starts behind it; where the model may open reasoning itself,
//! the grammar covers it.

mod brace;
mod channels;
mod free;
mod json;
mod lark;
mod literal;
mod python;
mod reason;
mod schema;
mod tags;
mod tree;

use crate::config::{ParserConfig, ReasoningMode, ToolChoice};
use crate::format::{Calls, Format};
use crate::tools::Tool;
use lark::{Lark, either};
use schema::Schema;

/// What a grammar is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrammarInput {
    /// A name that the plugin describes.
    pub format: String,
    /// The tools that may be called.
    pub tools: Vec<Tool>,
    /// See [`ToolChoice`].
    pub tool_choice: ToolChoice,
    /// Several calls allowed.
    pub parallel_tools: bool,
    /// See [`ReasoningMode`].
    pub reasoning: ReasoningMode,
    /// The end of the rendered prompt.
    pub prompt_tail: String,
    /// Operator's settings, JSON.
    pub options: String,
}

/// Where the grammar starts to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// From the first generated token.
    Immediately,
    /// After this text has been generated.
    After(String),
    /// Free text until the model writes this text, which the grammar includes.
    Triggered(String),
}

/// A grammar and where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The grammar.
    pub lark: String,
    /// See [`Start`].
    pub start: Start,
}

/// A grammar on its way.
#[derive(Debug)]
struct Job<'a> {
    lark: Lark,
    tools: Vec<(&'a Tool, Schema)>,
    /// More than one call may be written.
    many: bool,
    /// The model chose to call: the grammar begins with the literal that shows it.
    triggered: bool,
    /// What may stand in no text, besides the ends of the text itself.
    never: Vec<String>,
}

/// What a family writes.
#[derive(Debug)]
struct Block {
    /// All calls.
    calls: String,
    /// The literal that begins them; none where calls have no mark.
    trigger: Option<String>,
}

/// The grammar of `format` for a request; none if nothing is to be constrained.
///
/// # Errors
/// A tool's schema is no JSON object, has a parameter that the format can't write, or the named tool is missing.
pub fn constrain(format: &Format, input: &GrammarInput) -> Result<Option<Constraint>, String> {
    let Some(mut job) = begin(input)? else { return Ok(None) };
    if let Some(spec) = format.channels {
        return channels::constrain(spec, format, job, input);
    }
    let Some(block) = calls(&format.calls, &mut job)? else { return Ok(None) };
    if let (true, Some(trigger)) = (job.triggered, &block.trigger) {
        return Ok(Some(Constraint { lark: job.lark.finish(&block.calls), start: Start::Triggered(trigger.clone()) }));
    }
    let (start, reasoning) = reason::begin(format, input, &mut job.lark);
    if job.triggered {
        // Nothing shows that calls begin: the answer is either calls or text that holds none.
        let text = free::text(format, &mut job);
        let answer = join(&[&reasoning, "SPACE?", &either(vec![block.calls, text])]);
        return Ok(Some(Constraint { lark: job.lark.finish(&answer), start }));
    }
    let before = lark::optional(&lark::template(format.wire.before));
    let parts = [reasoning.as_str(), "SPACE?", &before, &block.calls];
    let after = match format.wire.after {
        "" => String::new(),
        text => lark::optional(&lark::quote(text)),
    };
    let start_rule = join(&[&join(&parts), &after]);
    Ok(Some(Constraint { lark: job.lark.finish(&start_rule), start }))
}

/// The tools in question and how they may be called; none if the request leaves everything to the model.
fn begin(input: &GrammarInput) -> Result<Option<Job<'_>>, String> {
    let auto = input.tool_choice == ToolChoice::Auto;
    let chosen: Vec<&Tool> = match &input.tool_choice {
        ToolChoice::None => return Ok(None),
        ToolChoice::Auto if !input.tools.iter().any(|t| t.strict) => return Ok(None),
        ToolChoice::Named(name) => input.tools.iter().filter(|t| t.name == *name).take(1).collect(),
        _ => input.tools.iter().collect(),
    };
    if let (ToolChoice::Named(name), true) = (&input.tool_choice, chosen.is_empty()) {
        return Err(format!("tool_choice names '{name}', which is not one of the tools"));
    }
    if chosen.is_empty() {
        return Err("tool_choice asks for a call, but the request declares no tools".to_owned());
    }
    let tools = chosen.into_iter().map(|t| Schema::of(t).map(|s| (t, s))).collect::<Result<Vec<_>, _>>()?;
    let many = input.parallel_tools && !matches!(input.tool_choice, ToolChoice::Named(_));
    Ok(Some(Job { lark: Lark::default(), tools, many, triggered: auto, never: Vec::new() }))
}

fn calls(calls: &Calls, job: &mut Job<'_>) -> Result<Option<Block>, String> {
    Ok(Some(match calls {
        Calls::None => return Ok(None),
        Calls::Json(spec) => json::block(spec, job),
        Calls::Tags(spec) => tags::block(spec, job)?,
        Calls::Python(spec) => python::block(spec, job),
        Calls::Brace(spec) => brace::block(spec, job)?,
    }))
}

/// Expressions in a row; empty ones are left out.
fn join(parts: &[&str]) -> String {
    parts.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

/// `one`, or as many as the request allows, with `between` between them.
fn row(one: &str, between: &str, many: bool) -> String {
    if many { join(&[one, &format!("({})*", join(&[between, one]))]) } else { one.to_owned() }
}

/// What the parser of the answer will know, as far as reasoning is concerned.
fn parser_config(input: &GrammarInput) -> ParserConfig {
    ParserConfig { reasoning: input.reasoning, prompt_tail: input.prompt_tail.clone(), ..ParserConfig::default() }
}
